/* SPDX-License-Identifier: Apache-2.0 */
/* What a pair of marker calls costs the thread that makes them, next to a bare pair of clock reads: idle (a step that is
 * skipped), and recording. Runs on the main thread under LD_PRELOAD=libcprof.so with CPROF_WAIT=2
 * CPROF_WARMUP=0 CPROF_ACTIVE=1; without the library it shows what calls cost that reach nothing. Prints
 * `name value unit` lines for scripts/bench. Usage: bench_marker [rounds] */
#include "preload/cprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 1000 /* in a round; far fewer than a ring takes */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void marker_pair(struct cprof_marker *m)
{
    cprof_marker_start(m);
    cprof_marker_finish(m);
}

static void range_pair(struct cprof_marker *m)
{
    (void)m;
    cprof_range_push("range");
    cprof_range_pop();
}

static void clock_pair(struct cprof_marker *m)
{
    (void)m;
#if defined(__x86_64__)
    (void)*(volatile uint64_t *)&(uint64_t){__builtin_ia32_rdtsc()};
    (void)*(volatile uint64_t *)&(uint64_t){__builtin_ia32_rdtsc()};
#endif
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The best round, in nanoseconds per pair, as with the other figures of `make bench`. The pause lets the cprof thread empty the ring. */
static double measure(void (*pair)(struct cprof_marker *), struct cprof_marker *m, double *times,
                      int rounds)
{
    for (int r = 0; r < rounds; r++) {
        double begin = now_ns();
        for (int i = 0; i < PAIRS; i++)
            pair(m);
        times[r] = (now_ns() - begin) / PAIRS;
        usleep(3000);
    }
    qsort(times, (size_t)rounds, sizeof *times, by_value);
    return times[0];
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    double *times = rounds > 0 ? calloc((size_t)rounds, sizeof *times) : NULL;
    if (!times)
        return 1;
    static const char *const category[] = {"bench"};
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    options.categories = category;
    options.n_categories = 1;
    struct cprof_marker *m = cprof_marker("marker", NULL), *own = cprof_marker("own", &options);
    cprof_step(); /* away from step 0, which may be kept */
    while (cprof_action() >= CPROF_ACTIVE)
        cprof_step();
    printf("clock_pair %.1f ns\n", measure(clock_pair, m, times, rounds));
    printf("marker_pair_idle %.1f ns\n", measure(marker_pair, m, times, rounds));
    printf("range_pair_idle %.1f ns\n", measure(range_pair, m, times, rounds));
    for (int i = 0; i < 1000 && cprof_action() < CPROF_ACTIVE; i++)
        cprof_step();
    printf("recording %d bool\n", cprof_is_recording());
    printf("marker_pair_recording %.1f ns\n", measure(marker_pair, m, times, rounds));
    printf("marker_pair_own_category %.1f ns\n", measure(marker_pair, own, times, rounds));
    printf("range_pair_recording %.1f ns\n", measure(range_pair, m, times, rounds));
    cprof_step();
    free(times);
    return 0;
}
