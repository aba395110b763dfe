/* SPDX-License-Identifier: Apache-2.0 */
/* The cprof thread, and the calls that start, feed and stop it. */
#define _GNU_SOURCE
#include "writer/writer.h"

#include <sched.h>
#include <string.h>

#include "writer/base/base.h"
#include "writer/import/import.h"
#include "writer/passes.h"
#include "writer/record/record.h"
#include "writer/shutdown.h"
#include "writer/window/window.h"

static struct writer_options options;
static cpu_set_t affinity;
static _Atomic bool started; /* writer_start() is done; that sets it, any thread reads */

static void *run(void *unused)
{
    if (options.thread_began)
        options.thread_began();
    io_thread_begin();
    passes_begin();
    for (;;) {
        uint32_t word = wake_word();
        bool stopping = run_state_now() == WRITER_STOPPING;
        passes_do(stopping);
        if (stopping)
            break;
        wake_wait(word, passes_pause_ms());
    }
    passes_finish();
    observers_end();
    shutdown_run();
    io_thread_end();
    return unused;
}

/* ---- start and end ---- */

bool writer_import(const char *path)
{
    bool done = import_add(path);
    if (done)
        wake_thread();
    return done;
}

bool writer_start(const struct writer_options *given)
{
    options = *given;
    shutdown_start(&options);
    stacks_in_args((enum stacks_in_args)options.stacks_in_args);
    passes_start(&options);
    if (given->affinity && given->affinity_size <= sizeof affinity) {
        memcpy(&affinity, given->affinity, given->affinity_size);
        options.affinity = &affinity;
    }
    edges_start(writer_run);
    if (options.gzip)
        sink_use_igzip();
    clock_start();
    if (!thread_log_start(options.ring_bytes)) {
        log_error("the process has no thread-specific key left (pthread_key_create); nothing is "
                  "recorded");
        return false;
    }
    atomic_store(&started, true);
    return true;
}

bool writer_run(void)
{
    if (!run_state_change(WRITER_NONE, WRITER_RUNS))
        return true;
    int error = run_state_start(run, &options);
    if (!error)
        return true;
    run_state_set(WRITER_ABANDONED);
    passes_fail();
    log_error("cannot start a thread: %s; nothing is recorded", strerror(error));
    return false;
}

void writer_want_skipped(void)
{
    if (passes_want_skipped() && atomic_load(&started) &&
        writer_run()) /* else another thread is just waking cprof */
        wake_thread();
}

void writer_abandon(void)
{
    passes_fail();
    run_state_set(WRITER_ABANDONED);
    io_thread_abandon();
    thread_log_abandon();
}
