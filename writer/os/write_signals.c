/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks SIGPIPE and SIGXFSZ around a write. The kernel sends both to the writing thread before
 * write() returns. */
#define _GNU_SOURCE
#include "writer/os/write_signals.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void write_signals_hold(struct write_signals *held)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE);
    sigaddset(&ours, SIGXFSZ);
    sigpending(&held->pending);
    pthread_sigmask(SIG_BLOCK, &ours, &held->before);
}

void write_signals_release(const struct write_signals *held, int error)
{
    int came = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    if (came && !sigismember(&held->pending, came)) {
        sigset_t ours;
        sigemptyset(&ours);
        sigaddset(&ours, came);
        sigtimedwait(&ours, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
