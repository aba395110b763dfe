/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the memory, files and threads of a long-running program, for tests that compare them
 * over time. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The number of entries of a folder without "." and "..". */
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

/* The cprof thread opens files for moments only, so the lowest of several counts is taken. */
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

/* Anonymous resident memory in KB. The kernel may drop and reload pages of files. */
static inline long own_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %ld", &kb) != 1)
        ;
    if (f)
        fclose(f);
    return kb;
}

/* Prints resident memory, open files and threads of this process on stdout. */
static inline void print_size(long step)
{
    long files = open_files(), kb = own_kb();
    if (kb < 0)
        exit(2);
    printf("step %ld: %ld KB %ld fds %ld threads\n", step, kb, files, entries("/proc/self/task"));
    fflush(stdout);
}
