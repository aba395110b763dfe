/* SPDX-License-Identifier: Apache-2.0 */
/* The times in which CUPTI recorded calls: a hooked call of such a time has a record of CUPTI to
 * wait for. */
#ifndef CUPTI_RECORDED_H
#define CUPTI_RECORDED_H

#include <stdbool.h>
#include <stdint.h>

/* Calls are recorded from now on, or no longer. The caller serialises. */
void recorded_begin(void);
void recorded_end(void);

/* Ticks since which calls are recorded; UINT64_MAX: they are not. Any thread. */
uint64_t recorded_since(void);

/* True when a call that began at `ticks` was recorded. Knows the last 16 times, because rings are
 * drained after CUPTI was given back. Any thread. */
bool recorded_at(uint64_t ticks);

#endif
