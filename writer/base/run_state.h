/* SPDX-License-Identifier: Apache-2.0 */
/* The one cprof thread as a thread: how far it is in its life, starting it, waiting for it. */
#ifndef WRITER_BASE_RUN_STATE_H
#define WRITER_BASE_RUN_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer_options;

/* Where the cprof thread is. WRITER_SAVED: all files are whole; what follows them is still being
 * done. WRITER_LEAVING: that is over, CUPTI is let go of. */
enum run_state {
    WRITER_NONE,
    WRITER_RUNS,
    WRITER_STOPPING,
    WRITER_SAVED,
    WRITER_LEAVING,
    WRITER_DONE,
    WRITER_ABANDONED
};

/* Any thread. */
enum run_state run_state_now(void);

/* Goes from one part to another; false: it was not in that part. Wakes who waits. Any thread. */
bool run_state_change(enum run_state from, enum run_state to);

/* Goes to that part whatever the one before was. Wakes who waits. Any thread. */
void run_state_set(enum run_state to);

/* Waits until the life is no longer in this part, at most `ms`; may return early. Any thread. */
void run_state_wait(enum run_state part, int ms);

/* The same until it has left this part, at most `most_ms` in all; the cprof thread is woken
 * meanwhile when it is to stop. Any other thread. */
void run_state_wait_past(enum run_state part, int64_t most_ms);

/* Starts the cprof thread with all signals blocked, on the processors of options->affinity where
 * these still exist. 0 or an errno value. Any application thread, once. */
int run_state_start(void *(*run)(void *), const struct writer_options *options);

/* Size of the stack, in bytes, for a thread of ours that uses `own` of it: the C library puts the
 * thread-local storage of the program and its libraries there, too. Any thread that may walk over
 * the loader's list. */
size_t run_state_stack_size(size_t own);

/* A thread of ours is about to begin (1), or ends (-1): for writer_threads(). Any thread. */
void run_state_thread(int change);

#endif
