/* SPDX-License-Identifier: Apache-2.0 */
/* `many_windows STEPS PAUSE_US RANGES`: steps with so many ranges and marks and a pause. At a tenth of the way and at the end it
 * prints its resident memory in KB, its open files and its threads. For schedules that save a file per step. */
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
    for (int i = 0; i < steps; i++) {
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
    print_size(steps);
    return 0;
}
