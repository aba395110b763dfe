/* SPDX-License-Identifier: Apache-2.0 */
/* `many_windows STEPS PAUSE_US RANGES [COPY]`: makes steps with RANGES ranges, RANGES marks and
 * a pause. Prints its resident memory in KB, its open files and its threads, after a tenth of
 * the steps and at the end. With COPY, it copies the last trace there every ten steps. All
 * earlier ones are saved then, so that a busy machine does not hold more in memory. For
 * schedules that save a file per step. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/cprof.h"
#include "tests/e2e/c/sizes.h"

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 1000;
    useconds_t pause_us = argc > 2 ? (useconds_t)atoi(argv[2]) : 1000;
    int ranges = argc > 3 ? atoi(argv[3]) : 10;
    const char *copy = argc > 4 ? argv[4] : NULL;
    for (int i = 0; i < steps; i++) {
        if (copy && i && i % 10 == 0)
            cprof_export_chrome_trace(copy);
        if (i == steps / 10)
            print_size(i);
        for (int k = 0; k < ranges; k++) {
            cprof_range_push("work");
            cprof_mark("mark");
            cprof_range_pop();
        }
        if (pause_us)
            usleep(pause_us);
        cprof_step();
    }
    if (copy)
        cprof_export_chrome_trace(copy);
    print_size(steps);
    return 0;
}
