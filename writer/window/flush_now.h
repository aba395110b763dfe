/* SPDX-License-Identifier: Apache-2.0 */
/* The cprof thread's side of writer_flush_now(), in which application threads wait for a flush. */
#pragma once

#include <stdint.h>

/* How many flushes were asked for, and how many of these are done. cprof thread. */
uint32_t flush_now_asked(void);
uint32_t flush_now_done(void); /* as above */

/* The first `asked` flushes are done: wakes the waiting threads. cprof thread. */
void flush_now_set_done(uint32_t asked);
