/* SPDX-License-Identifier: Apache-2.0 */
/* Periods in which CUPTI recorded calls. A hooked call in such a period waits for CUPTI's
 * record. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CUPTI begins or has ended recording calls. The caller serialises. */
void recorded_begin(void);
void recorded_end(void);

/* Ticks since which CUPTI records calls; UINT64_MAX: it does not. Any thread. */
uint64_t recorded_since(void);

/* Whether CUPTI recorded a call that began at `ticks`. Covers the last 16 periods, because rings
 * are drained after CUPTI was released. Any thread. */
bool recorded_at(uint64_t ticks);
