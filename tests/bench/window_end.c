/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time that the stepping thread spends in cprof_step() when it ends a window of N marker spans.
 * Run under the preload with a schedule of one warmup and one active step, for ever. Prints `name
 * value unit` lines. Usage: window_end [windows] [spans] */
#include "preload/cprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int windows = argc > 1 ? atoi(argv[1]) : 200;
    int spans = argc > 2 ? atoi(argv[2]) : 2000;
    struct cprof_marker *marker = cprof_marker("work", NULL);
    double *took = calloc((size_t)windows, sizeof *took);
    if (!took || windows < 1)
        return 1;
    for (int i = 0; i < windows; i++) {
        cprof_step(); /* warmup is over, the window opens */
        for (int n = 0; n < spans; n++) {
            cprof_marker_start(marker);
            cprof_marker_finish(marker);
        }
        double before = thread_us();
        cprof_step(); /* the window ends */
        took[i] = thread_us() - before;
        usleep(10000); /* it is written meanwhile, and nothing is lost */
    }
    qsort(took, (size_t)windows, sizeof *took, ascending);
    printf("window_end_p50 %.2f us\n", took[windows / 2]);
    printf("window_end_p99 %.2f us\n", took[windows * 99 / 100]);
    free(took);
    return 0;
}
