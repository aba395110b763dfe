/* SPDX-License-Identifier: Apache-2.0 */
/* The least time of a call, or of a pair of calls. Each program includes it once. */
#pragma once

#include <time.h>
#include <unistd.h>

#include "preload/cprof.h"

#define PAIRS 1000 /* in a round; far fewer than a ring takes */

static inline void range_pair(void)
{
    cprof_range_push("range");
    cprof_range_pop();
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The best round, in nanoseconds per pair. The pause lets the cprof thread empty the ring: what is
 * dropped costs less. */
static double measure(void (*pair)(void), int rounds)
{
    double best = 1e9;
    for (int r = 0; r < rounds; r++) {
        double begin = now_ns();
        for (int i = 0; i < PAIRS; i++)
            pair();
        double ns = (now_ns() - begin) / PAIRS;
        best = ns < best ? ns : best;
        usleep(3000);
    }
    return best;
}
