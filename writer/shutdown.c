/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the process, within its deadline. Each wait is bounded: a disk, a helper or a CUPTI
 * that hangs holds up the cprof thread, not the program. */
#include "writer/shutdown.h"

#include "writer/base/base.h"
#include "writer/file/file.h"
#include "writer/window/window.h"

#define AFTER_GRACE_MS 1000 /* for work that keeps to its own deadline */
/* Bounds for releasing CUPTI, which gets the rest of the time at exit. */
#define LEAVE_LEAST_MS 500
#define LEAVE_MOST_MS  2000

static const struct writer_options *options;
void shutdown_start(const struct writer_options *given)
{
    options = given;
    pen_start();
}

static const char *what_is_on_disk(void)
{
    if (!pen_keep())
        return "a write does not end; cprof recover repairs the file";
    return pen_has_written() ? "what is on disk opens as it is" : "nothing of it is on disk";
}

void shutdown_run(void)
{
    run_state_set(WRITER_SAVED);
    for (int ms; run_state_now() == WRITER_SAVED && options->each_pass &&
                 (ms = options->each_pass(true)) >= 0;)
        run_state_wait(WRITER_SAVED, ms);
    run_state_set(WRITER_LEAVING);
    if (options->states)
        options->states->finish();
    if (options->gpu && options->gpu->finish)
        options->gpu->finish();
    run_state_set(WRITER_DONE);
}

static int64_t clamp_leave_ms(int64_t ms)
{
    return ms < LEAVE_LEAST_MS ? LEAVE_LEAST_MS : ms > LEAVE_MOST_MS ? LEAVE_MOST_MS : ms;
}

static void stop_gpu(void)
{
    if (options->states)
        options->states->finish();
    if (options->gpu && options->gpu->stop)
        options->gpu->stop();
}

/* The files are whole. ms: the rest of the time at exit. */
static void wait_for_the_rest(int64_t ms)
{
    if (run_state_now() == WRITER_SAVED) /* each_pass keeps to the deadline itself */
        run_state_wait_past(WRITER_SAVED, options->after_deadline_ms + AFTER_GRACE_MS);
    run_state_change(WRITER_SAVED, WRITER_LEAVING);
    run_state_wait_past(WRITER_LEAVING, clamp_leave_ms(ms));
    if (report.traces)
        report_exit(options);
    if (run_state_now() != WRITER_LEAVING)
        return;
    stop_gpu();
    log_warn("a call of CUPTI did not return within CPROF_DRAIN_DEADLINE_MS=%lld; the program ends "
             "without it",
             (long long)options->exit_deadline_ms);
}

bool writer_finish(void)
{
    uint64_t start = clock_monotonic_ns();
    if (!run_state_change(WRITER_RUNS, WRITER_STOPPING))
        return run_state_now() != WRITER_STOPPING;
    atomic_store(&writer_gate, 0);
    run_state_wait_past(WRITER_STOPPING, options->exit_deadline_ms);
    int64_t took = (int64_t)((clock_monotonic_ns() - start) / 1000000);
    if (run_state_now() >= WRITER_SAVED && run_state_now() <= WRITER_DONE) {
        wait_for_the_rest(options->exit_deadline_ms - took);
        return true;
    }
    stop_gpu();
    log_warn("the trace was not finished within CPROF_DRAIN_DEADLINE_MS=%lld; %s",
             (long long)options->exit_deadline_ms, what_is_on_disk());
    return false;
}
