/* SPDX-License-Identifier: Apache-2.0 */
/* Hides the signals of a failed write by cprof from the program: SIGPIPE (no reader) and SIGXFSZ
 * (RLIMIT_FSIZE). */
#pragma once

#include <signal.h>

struct write_signals {
    sigset_t before, pending;
};

/* Blocks both signals on this thread. Pair with write_signals_release(). Any thread. */
void write_signals_hold(struct write_signals *held);

/* Consumes the signal that belongs to `error` (errno of the write, 0: none), unless one was pending
 * before, which is the program's. Then restores the mask. Changes errno. */
void write_signals_release(const struct write_signals *held, int error);
