/* SPDX-License-Identifier: Apache-2.0 */
/* Clock pairs that application threads read in their CUDA calls, while CUPTI uses CLOCK_REALTIME.
 * NTP bends that clock: a bend of D millionths between two pairs L apart makes the map wrong by up
 * to L * D / 4. One microsecond moves CUPTI's call out of the hooked call. The cprof thread reads
 * the clocks each 10 ms, or later on a busy machine. Calls read at most four times a millisecond,
 * before they begin and after they end: a thread may make no call for long, and may then be
 * preempted inside the next one, whose kernel must not begin before it.
 *
 *     hook_begin(), hook_end() --gpu_clock_look()--> ring of pairs --cprof thread--> map */
#pragma once

#include "cupti/clock_map.h"

/* Adds to the map the pairs that calls read before `until` (ticks); later pairs stay in the ring.
 * Then decides whether calls go on reading. They do while now() (CUPTI's clock, 0 = success) lies
 * between two quick readings of CLOCK_REALTIME. Takes 100 us more while c->rate is unknown. One
 * thread at a time: the starting thread, then the cprof thread. */
void clock_pairs_take(struct cupti_clock *c, int (*now)(uint64_t *), uint64_t until);
