/* SPDX-License-Identifier: Apache-2.0 */
/* ends HOW: marks some steps, then ends otherwise than by return from main():
 *     pthread_exit   the main thread exits; another works on, marks more and is the last
 *     alone          the main thread exits, and there is no other
 *     cancelled      the main thread cancels itself with pthread_cancel()
 *     woken          the main thread exits before anything was marked; the other one marks
 *     quick_exit     with status 3
 *     full           by return, status 0, after filling standard error, which nobody reads */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/cprof.h"

static void steps(int n)
{
    for (int i = 0; i < n; i++) {
        cprof_range_push("work");
        usleep(1000);
        cprof_range_pop();
        cprof_step();
    }
}

static void *works_on(void *unused)
{
    usleep(300000); /* time for the main thread to end */
    steps(3);
    return unused;
}

static void at_exit(void)
{
    puts("handlers of exit() are called");
}

/* The reader of standard error takes nothing out. */
static void fill_stderr(void)
{
    char text[4096];
    memset(text, 'x', sizeof text);
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    for (size_t n = sizeof text; n; n /= 2)
        while (write(STDERR_FILENO, text, n) > 0)
            ;
    fcntl(STDERR_FILENO, F_SETFL, flags);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t thread;
    atexit(at_exit);
    if (strcmp(how, "woken") != 0)
        steps(3);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(3);
    if (strcmp(how, "full") == 0) {
        fill_stderr();
        return 0;
    }
    if (strcmp(how, "alone") != 0 && pthread_create(&thread, NULL, works_on, NULL) != 0)
        return 1;
    if (strcmp(how, "cancelled") == 0) {
        pthread_cancel(pthread_self());
        pthread_testcancel();
    }
    pthread_exit(NULL);
}
