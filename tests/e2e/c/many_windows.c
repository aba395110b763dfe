/* SPDX-License-Identifier: Apache-2.0 */
/* `many_windows STEPS PAUSE_US RANGES`: steps with so many ranges and marks and a pause. At a tenth of the way and at the end it
 * prints its resident memory in KB, its open files and its threads. For schedules that save a file per step. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/cprof.h"

static long entries(const char *folder)
{
    long n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n - 2;
}

/* The cprof thread has a file open for moments only: the fewest of several looks. */
static long open_files(void)
{
    long fewest = entries("/proc/self/fd");
    for (int i = 0; i < 50; i++) {
        usleep(500);
        long n = entries("/proc/self/fd");
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

static void print_size(int step)
{
    long pages = 0, resident = 0, files = open_files();
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        exit(2);
    fclose(f);
    printf("step %d: %ld KB %ld fds %ld threads\n", step, resident * sysconf(_SC_PAGESIZE) / 1024,
           files, entries("/proc/self/task"));
}

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
