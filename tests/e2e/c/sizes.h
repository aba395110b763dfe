/* SPDX-License-Identifier: Apache-2.0 */
/* What a long-running program has grown to, printed for tests that compare it with earlier. */
#ifndef TESTS_E2E_C_SIZES_H
#define TESTS_E2E_C_SIZES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Entries of a folder without "." and "..". */
static inline long entries(const char *folder)
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
static inline long open_files(void)
{
    long fewest = entries("/proc/self/fd");
    for (int i = 0; i < 50; i++) {
        usleep(500);
        long n = entries("/proc/self/fd");
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

/* Resident memory, open files and threads of this process, on stdout. */
static inline void print_size(long step)
{
    long pages = 0, resident = 0, files = open_files();
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        exit(2);
    fclose(f);
    printf("step %ld: %ld KB %ld fds %ld threads\n", step, resident * sysconf(_SC_PAGESIZE) / 1024,
           files, entries("/proc/self/task"));
    fflush(stdout);
}

#endif
