/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the cprof thread: its state, starting it, waiting for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer_options;

/* State of the cprof thread. WRITER_SAVED: all files are whole, their follow-up work is going on.
 * WRITER_LEAVING: that is done, CUPTI is being released. */
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

/* Changes from one state to another and wakes the waiting threads. False: the state was not `from`.
 * Any thread. */
bool run_state_change(enum run_state from, enum run_state to);

/* Sets the state and wakes the waiting threads. Any thread. */
void run_state_set(enum run_state to);

/* Waits at most `ms` while the state is `part`; may return early. Any thread. */
void run_state_wait(enum run_state part, int ms);

/* Waits at most `most_ms` while the state is `part`. In WRITER_STOPPING wakes the cprof thread
 * meanwhile. Any other thread. */
void run_state_wait_past(enum run_state part, int64_t most_ms);

/* Starts the cprof thread with all signals blocked, on those processors of options->affinity that
 * still exist. 0 or errno. Any application thread, once. */
int run_state_start(void *(*run)(void *), const struct writer_options *options);

/* Stack size in bytes for a thread of cprof that uses `own` of it: the C library puts the
 * thread-local storage of all libraries there too. Any thread that may walk the loader's list. */
size_t run_state_stack_size(size_t own);

/* A thread of cprof is about to begin (1) or ends (-1): for writer_threads(). Any thread. */
void run_state_thread(int change);
