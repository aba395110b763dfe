/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes the cprof thread. */
#pragma once

#include <stdint.h>

/* Wakes the cprof thread. Any thread. */
void wake_thread(void);

/* The word for wake_wait(); read it before looking for work. cprof thread. */
uint32_t wake_word(void);

/* Waits until wake_thread() was called after `word` was read, at most `ms` milliseconds; below 0:
 * for ever. cprof thread. */
void wake_wait(uint32_t word, int64_t ms);
