/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of clock readings that application threads take in their CUDA calls, where CUPTI keeps the
 * system's time. NTP bends that clock: by D millionths between two pairs L apart the map is up to L
 * * D / 4 wrong, and a microsecond moves a call of CUPTI's out of the hooked one. The cprof thread
 * reads each 10 ms, later when the machine is busy; a call reads when it is made, four times a
 * millisecond at most.
 *
 *     hook_end() --gpu_clock_look()--> a ring of pairs --> cprof thread --> the map
 * (clock_map.h) */
#ifndef CUPTI_CLOCK_PAIRS_H
#define CUPTI_CLOCK_PAIRS_H

#include "cupti/clock_map.h"

/* Adds the pairs taken since the last time and before `until` (ticks) to the map; later ones stay
 * for the next time. Says whether more are to be taken: only while CUPTI's clock, read by now()
 * (0 = success), lies between two readings of CLOCK_REALTIME around it, and these are quick. Takes
 * 100 us more while c->rate is not known. One thread at a time: the starting one, then the cprof
 * thread. */
void clock_pairs_take(struct cupti_clock *c, int (*now)(uint64_t *), uint64_t until);

#endif
