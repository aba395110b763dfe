/* SPDX-License-Identifier: Apache-2.0 */
/* What a pair of marker calls costs the thread that makes them, next to a bare pair of clock reads:
 * idle (a step that is skipped), and recording. Runs on the main thread under
 * LD_PRELOAD=libcprof.so with CPROF_WAIT=2 CPROF_WARMUP=0 CPROF_ACTIVE=1; without the library it
 * shows what calls cost that reach nothing. Prints `name value unit` lines for scripts/bench.
 * Usage: bench_marker [rounds] */
#include <stdio.h>
#include <stdlib.h>

#include "preload/cprof.h"
#include "tests/bench/pair.h"

static struct cprof_marker *marker, *own;

static void marker_pair(void)
{
    cprof_marker_start(marker);
    cprof_marker_finish(marker);
}

static void own_pair(void)
{
    cprof_marker_start(own);
    cprof_marker_finish(own);
}

static void clock_pair(void)
{
#if defined(__x86_64__)
    (void)*(volatile uint64_t *)&(uint64_t){__builtin_ia32_rdtsc()};
    (void)*(volatile uint64_t *)&(uint64_t){__builtin_ia32_rdtsc()};
#endif
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    static const char *const category[] = {"bench"};
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    options.categories = category;
    options.n_categories = 1;
    marker = cprof_marker("marker", NULL);
    own = cprof_marker("own", &options);
    cprof_step(); /* away from step 0, which may be kept */
    while (cprof_action() >= CPROF_ACTIVE)
        cprof_step();
    printf("clock_pair %.1f ns\n", measure(clock_pair, rounds));
    printf("marker_pair_idle %.1f ns\n", measure(marker_pair, rounds));
    printf("range_pair_idle %.1f ns\n", measure(range_pair, rounds));
    for (int i = 0; i < 1000 && cprof_action() < CPROF_ACTIVE; i++)
        cprof_step();
    printf("recording %d bool\n", cprof_is_recording());
    printf("marker_pair_recording %.1f ns\n", measure(marker_pair, rounds));
    printf("marker_pair_own_category %.1f ns\n", measure(own_pair, rounds));
    printf("range_pair_recording %.1f ns\n", measure(range_pair, rounds));
    cprof_step();
    return 0;
}
