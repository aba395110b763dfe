/* SPDX-License-Identifier: Apache-2.0 */
/* Counts its threads as CPython 3.12 and later do after os.fork(): by a field of
 * /proc/self/stat, opened with fopen() from the code that has PyOS_AfterFork_Parent(). Makes
 * three steps and a fork after each. Prints `forked ASKED ASKED_AGAIN` for each: the number
 * right after the fork, and the number without a fork. --threads N starts N threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/cprof.h"

void PyOS_AfterFork_Parent(void);

void PyOS_AfterFork_Parent(void)
{
}

static int threads(void)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    char *field = strrchr(text, ')');
    for (int i = 0; field && i < 18; i++)
        field = strchr(field + 1, ' ');
    return field ? atoi(field) : -1;
}

static void *rest(void *unused)
{
    pause();
    return unused;
}

int main(int argc, char **argv)
{
    long n = argc > 2 && strcmp(argv[1], "--threads") == 0 ? atol(argv[2]) : 0;
    for (long i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, rest, NULL) != 0)
            return 2;
    }
    for (int i = 0; i < 3; i++) {
        cprof_step();
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int asked = threads();
        printf("forked %d %d\n", asked, threads());
        if (child < 0 || waitpid(child, NULL, 0) != child)
            return 2;
    }
    return 0;
}
