/* SPDX-License-Identifier: Apache-2.0 */
/* deaths HOW [steps]: marks 20 ranges named "work" and a last one, with or without steps. Waits
 * for a line on stdin and ends by HOW:
 *     return exit _exit quick_exit      with status 7
 *     kill kill_group raise killpg tgkill pthread_kill sigqueue
 *                                       SIGTERM from itself, by the C library's function
 *     other_thread                      pthread_kill() to an idle thread
 *     abort                             SIGABRT
 *     alarm pipe segv                   SIGALRM, SIGPIPE, SIGSEGV
 *     raw_tgkill exit_group             by its own system call
 *     outside                           waits for a signal from outside
 *     handled                           raises signals that do not end it: one blocked, one
 *                                       handled and one harmless */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/cprof.h"

enum { RANGES = 20, STATUS = 7 };

static void mark(const char *name, int steps)
{
    cprof_range_push(name);
    usleep(100);
    cprof_range_pop();
    if (steps)
        cprof_step();
}

static pthread_barrier_t began;

static void *idle(void *unused)
{
    pthread_barrier_wait(&began);
    for (;;)
        pause();
    return unused;
}

static void by_another_thread(void)
{
    pthread_t thread;
    pthread_barrier_init(&began, NULL, 2);
    if (pthread_create(&thread, NULL, idle, NULL) == 0) {
        pthread_barrier_wait(&began); /* the thread accepts signals from now on */
        pthread_kill(thread, SIGTERM);
    }
    pause();
}

static void break_pipe(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        return;
    close(ends[0]);
    if (write(ends[1], "x", 1) == 1)
        puts("somebody reads");
}

static void handler(int number)
{
    (void)number;
}

static void live_on(int steps)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGTERM);
    pthread_kill(pthread_self(), SIGTERM);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    raise(SIGURG);
    killpg(0, SIGCHLD);
    raise(0);
    mark("afterwards", steps);
    exit(STATUS);
}

static void end(const char *how, int steps)
{
    const union sigval none = {0};
    volatile int *nowhere = NULL;
    if (strcmp(how, "exit") == 0)
        exit(STATUS);
    if (strcmp(how, "_exit") == 0)
        _exit(STATUS);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(STATUS);
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGTERM);
    if (strcmp(how, "kill_group") == 0)
        kill(0, SIGTERM);
    if (strcmp(how, "raise") == 0)
        raise(SIGTERM);
    if (strcmp(how, "killpg") == 0)
        killpg(getpgrp(), SIGTERM);
    if (strcmp(how, "tgkill") == 0)
        tgkill(getpid(), gettid(), SIGTERM);
    if (strcmp(how, "pthread_kill") == 0)
        pthread_kill(pthread_self(), SIGTERM);
    if (strcmp(how, "other_thread") == 0)
        by_another_thread();
    if (strcmp(how, "sigqueue") == 0)
        sigqueue(getpid(), SIGTERM, none);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "alarm") == 0)
        alarm(1);
    if (strcmp(how, "pipe") == 0)
        break_pipe();
    if (strcmp(how, "segv") == 0)
        *nowhere = 1;
    if (strcmp(how, "raw_tgkill") == 0)
        syscall(SYS_tgkill, getpid(), gettid(), SIGTERM);
    if (strcmp(how, "exit_group") == 0)
        syscall(SYS_exit_group, STATUS);
    if (strcmp(how, "handled") == 0)
        live_on(steps);
    if (strcmp(how, "return") != 0)
        pause();
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int steps = argc > 2;
    char line[16];
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    setpgid(0, 0);
    for (int i = 0; i < RANGES; i++)
        mark("work", steps);
    mark("last", 0);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    end(how, steps);
    return STATUS;
}
