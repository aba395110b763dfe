/* SPDX-License-Identifier: Apache-2.0 */
/* One window of so many events, at most 500,000 a second, for scripts/bench, which compares what
 * windows of different sizes cost. Runs under LD_PRELOAD=libcprof.so with one step of warmup and
 * one active step. Usage: bench_growth EVENTS */
#include "preload/cprof.h"

#include <stdlib.h>
#include <time.h>

#define BATCH 500 /* events, then a pause to the next millisecond */

int main(int argc, char **argv)
{
    static const char *names[] = {"load", "forward", "backward", "optimizer"};
    long events = argc > 1 ? atol(argv[1]) : 100000;
    struct timespec next;
    cprof_step(); /* from warmup to active */
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long made = 0; made < events; made += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            cprof_range_push(names[i % 4]);
            cprof_range_pop();
        }
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    cprof_step(); /* the window ends */
    return 0;
}
