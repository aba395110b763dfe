/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose signal handler makes marks. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "preload/cprof.h"

void begin(void);
long end(void);

static _Atomic long handled; /* another thread may take a signal while this one is in the handler */

static void handler(int unused)
{
    (void)unused;
    handled++;
    cprof_mark("from a handler");
}

void begin(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 100}, {0, 100}};
    cprof_mark("before");
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

long end(void)
{
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    return handled;
}
