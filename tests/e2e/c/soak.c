/* SPDX-License-Identifier: Apache-2.0 */
/* `soak SECONDS STEPS PAUSE_US THREAD_EACH`: runs for at least SECONDS and STEPS and does all
 * that a long run does to cprof: ranges, counters, children by fork and by exec. Each
 * THREAD_EACH-th step has a thread that lives for that step. The largest number of concurrent
 * threads is at the start. Every 100 steps it prints its resident memory in KB, its open files
 * and its threads. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/cprof.h"
#include "tests/e2e/c/sizes.h"

enum { RANGES = 3, NAMES = 500, REPORT = 100, AT_ONCE = 64, FIRST_ACTIVE = 2 };

static void work(long step)
{
    char name[64];
    double loss = 1.0 / (double)(step + 1);
    for (int i = 0; i < RANGES; i++) {
        snprintf(name, sizeof name, "range %ld", (step * RANGES + i) % NAMES);
        cprof_range_push(name);
        cprof_mark("mark");
        cprof_range_pop();
    }
    cprof_marker_counter(cprof_marker("loss", NULL), 1, NULL, &loss);
}

static void *short_life(void *step)
{
    work((long)step);
    return NULL;
}

static void *at_once(void *barrier)
{
    cprof_mark("at once");
    pthread_barrier_wait(barrier);
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[AT_ONCE];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++)
        if (pthread_create(&threads[i], NULL, at_once, &barrier) != 0)
            exit(2);
    for (int i = 0; i < AT_ONCE; i++)
        pthread_join(threads[i], NULL);
}

static void children(long step)
{
    static char *const command[] = {"/bin/true", NULL};
    extern char **environ;
    pid_t child = fork();
    if (child == 0) {
        work(step);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    if (posix_spawn(&child, command[0], NULL, NULL, command, environ) == 0)
        waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 20);
    long least = argc > 2 ? atol(argv[2]) : 1000;
    useconds_t pause_us = argc > 3 ? (useconds_t)atoi(argv[3]) : 2000;
    long thread_each = argc > 4 ? atol(argv[4]) : 20;
    long step = 0;
    for (; step < least || time(NULL) < end; step++) {
        pthread_t thread;
        if (step % REPORT == 0)
            print_size(step);
        if (step == FIRST_ACTIVE)
            many_threads();
        work(step);
        if (step % thread_each == 0 && pthread_create(&thread, NULL, short_life, (void *)step) == 0)
            pthread_join(thread, NULL);
        if (step % REPORT == REPORT / 2)
            children(step);
        if (pause_us)
            usleep(pause_us);
        cprof_step();
    }
    print_size(step);
    return 0;
}
