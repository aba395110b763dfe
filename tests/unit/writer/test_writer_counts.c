/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the counts of writer/writer.h, with many threads, several windows, and rings and files
 * that overflow. Each record must be in exactly one file or counted as lost. */
#include "writer/writer.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"

/* ---- exact counts ---------------------------------------------------------------------------- */

#define THREADS 8u
#define SPANS   60000u

static struct {
    _Atomic bool over;
    uint64_t starts[THREADS][SPANS]; /* of each span */
    unsigned made[THREADS];
    unsigned pause; /* spans between two short sleeps */
} work;

static void *make_spans(void *number)
{
    unsigned t = (unsigned)(uintptr_t)number, n = 0;
    struct thread_log *log = thread_log_get();
    while (!atomic_load_explicit(&work.over, memory_order_relaxed) && n < SPANS) {
        if (!gate_open(GATE_SPANS)) {
            sched_yield();
            continue;
        }
        struct open_span *span = span_open(log, &work, CAT_CPU_OP, "outer", 5);
        work.starts[t][n++] = atomic_load(&span->start);
        if (n < SPANS) {
            span = span_open(log, &n, CAT_CPU_OP, "inner", 5);
            work.starts[t][n++] = atomic_load(&span->start);
            span_close(log, &n);
        }
        span_close(log, &work);
        if (n % work.pause == 0)
            usleep(500);
    }
    work.made[t] = n;
    return NULL;
}

static pthread_t workers[THREADS];

static void start_workers(unsigned pause)
{
    work.pause = pause;
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&workers[i], NULL, make_spans, (void *)i), 0);
}

static void join_workers(void)
{
    atomic_store(&work.over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i], NULL);
}

static unsigned made_between(uint64_t from, uint64_t to)
{
    unsigned n = 0;
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < work.made[t]; i++)
            n += work.starts[t][i] >= from && work.starts[t][i] < to;
    return n;
}

START_TEST(each_window_holds_exactly_its_spans)
{
    enum { WINDOWS = 6 };
    static const enum action kinds[] = {ACTION_ACTIVE_AND_SAVE, ACTION_SKIP, ACTION_WARMUP};
    uint64_t from[WINDOWS], to[WINDOWS];
    int64_t batch[WINDOWS];
    session_start(ACTION_SKIP, false);
    start_workers(16);
    int64_t step = 0;
    for (unsigned i = 0; i < WINDOWS; i++) {
        for (unsigned k = 0; i % 2 == 0 && k < 2;
             k++, step++) /* every other window follows at once */
            session_step(kinds[1 + k]);
        from[i] = session_step(ACTION_ACTIVE);
        session_sleep(i == 3 ? 400 : 25);
        session_step(ACTION_ACTIVE_AND_SAVE);
        step += 2;
        session_sleep(25);
        batch[i] = step + 1;
        if (i % 2 == 1 || i + 1 == WINDOWS)
            to[i] = session_step(ACTION_SKIP), step++;
        else
            to[i] = 0; /* until the next window's edge */
        session_sleep(i % 2 ? 15 : 0);
    }
    join_workers();
    session_end();
    for (unsigned i = 0; i < WINDOWS; i++) {
        struct trace t = session_trace(batch[i]);
        unsigned made = made_between(from[i], to[i] ? to[i] : from[i + 1]);
        unsigned seen = trace_named(&t, 'X', "outer") + trace_named(&t, 'X', "inner");
        ck_assert_uint_gt(made, 0);
        trace_check_lost(&t, "total", 0);
        ck_assert_msg(seen == made, "window %u: %u made, %u in the file", i, made, seen);
        trace_free(&t);
    }
    ck_assert_uint_eq(session_files(".part"), 0);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ": 6 traces, "), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 1);
}
END_TEST

START_TEST(records_plus_losses_equal_the_spans_made)
{
    session_options.ring_bytes = 65536;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
    start_workers(SPANS + 1); /* without pauses: the rings overflow */
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i], NULL);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    unsigned seen = trace_named(&t, 'X', "outer") + trace_named(&t, 'X', "inner");
    unsigned made = 0;
    for (unsigned i = 0; i < THREADS; i++)
        made += work.made[i];
    ck_assert_uint_eq(made, THREADS * SPANS);
    ck_assert_uint_lt(seen, made);
    trace_check_lost(&t, "ring_full", made - seen);
    ck_assert_int_eq((int)trace_number(t.text, "records"), (int)seen);
    trace_free(&t);
}
END_TEST

START_TEST(counts_records_beyond_the_file_limit)
{
    session_options.max_trace_bytes = 400000;
    session_start(ACTION_ACTIVE, false);
    for (unsigned i = 0; i < 20000; i++) {
        session_span("span");
        if (i % 2000 == 0)
            session_sleep(20);
    }
    session_end();
    struct trace t = session_trace(0);
    unsigned seen = trace_named(&t, 'X', "span");
    ck_assert_uint_gt(seen, 2000);
    ck_assert_uint_lt(t.len, 700000);
    trace_check_lost(&t, "file_limit", 20000 - seen);
    trace_free(&t);
}
END_TEST

START_TEST(continuous_recording_starts_the_next_file)
{
    session_options.continuous = true;
    session_options.max_trace_bytes = 400000;
    session_start(ACTION_ACTIVE, false);
    unsigned made = 0;
    while (session_files("") < 4 && made < 1000000) {
        for (unsigned i = 0; i < 200; i++)
            session_span("span");
        made += 200;
        session_sleep(2);
    }
    session_end();
    unsigned files = session_files(""), seen = 0;
    ck_assert_uint_ge(files, 4);
    ck_assert_uint_eq(session_files(".part"), 0);
    for (unsigned i = 1; i <= files; i++) {
        char path[256], number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, "-%u", i);
        snprintf(path, sizeof path, "%s/t0%s.json", session_folder, number);
        struct trace t = trace_read(path);
        trace_check_lost(&t, "total", 0);
        seen += trace_named(&t, 'X', "span");
        trace_free(&t);
    }
    ck_assert_uint_eq(seen, made);
}
END_TEST

/* The span ends while its file is finished: after the rings were drained, and before the cprof
 * thread searches for open spans. */
static _Atomic int moment; /* 1: wait for the next flush, 2: it has begun, 3: the span has ended */

static void end_in_flush(struct trace_identity *out)
{
    *out = (struct trace_identity){.world_size = 1};
    int armed = 1;
    if (atomic_compare_exchange_strong(&moment, &armed, 2))
        while (atomic_load(&moment) != 3)
            usleep(100);
}

START_TEST(keeps_a_span_that_ends_during_the_flush)
{
    session_options.identity = end_in_flush;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_open("across");
    session_span("inside");
    session_step(ACTION_SKIP);
    session_sleep(30);
    atomic_store(&moment, 1);
    while (atomic_load(&moment) != 2)
        usleep(100);
    session_close("across");
    atomic_store(&moment, 3);
    session_sleep(100);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "across"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Makes the cprof thread wait at the end of a pass. */
static int wait_in_pass(bool stopping)
{
    int armed = 1;
    if (atomic_compare_exchange_strong(&moment, &armed, 2))
        while (atomic_load(&moment) != 3)
            usleep(100);
    return stopping ? -1 : 1;
}

/* Returns when the cprof thread waits in wait_in_pass(). Moment 3 releases the thread. */
static void stop_in_pass(void)
{
    atomic_store(&moment, 1);
    writer_wake();
    while (atomic_load(&moment) != 2)
        usleep(100);
}

/* After a window a record is lost, before the cprof thread learns that markers of skipped steps are
 * wanted. The loss does not count for the window, and no count becomes negative. */
START_TEST(late_request_for_skipped_markers_counts_no_loss)
{
    session_options.each_pass = wait_in_pass;
    session_start(ACTION_SKIP, false);
    stop_in_pass();
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    session_step(ACTION_SKIP);
    thread_log_lost(thread_log_get(), LOSS_MARKER, 1);
    writer_want_skipped();
    atomic_store(&moment, 3);
    session_sleep(100);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* A span ends after the window in which it began, and the ring is full. The loss counts for that
 * window only. */
START_TEST(late_loss_counts_for_the_spans_window)
{
    session_options.each_pass = wait_in_pass;
    session_options.ring_bytes = 64 << 10;
    session_start(ACTION_ACTIVE, false);
    session_span("thread");
    stop_in_pass();
    session_open("outer");
    session_open("inner");
    for (unsigned i = 0; i < 2000; i++)
        session_instant("instant", 0);
    session_step(ACTION_SKIP);
    session_close("inner");
    session_close("outer");
    atomic_store(&moment, 3);
    session_sleep(100);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("next");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    unsigned there = trace_named(&t, 'i', "instant");
    ck_assert_uint_eq(trace_named(&t, 'X', "outer") + trace_named(&t, 'X', "inner"), 0);
    ck_assert_uint_lt(there, 2000);
    trace_check_lost(&t, "ring_full", 2000 - there + 2);
    trace_free(&t);
    t = session_trace(3);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Makes the cprof thread wait after it took the edges of a pass. */
static uint64_t wait_in_collect(enum gpu_flush flush,
                                void (*each)(const struct gpu_record *r, void *arg), void *arg,
                                struct gpu_faults *faults)
{
    (void)flush, (void)each, (void)arg, (void)faults;
    wait_in_pass(false);
    return 0;
}

/* So many steps come at once that recording is turned off. The open window ends there, and the
 * steps that found no room make no windows. */
START_TEST(full_edge_queue_makes_no_extra_windows)
{
    static struct gpu_source held;
    held = fake_gpu_source;
    held.collect = wait_in_collect;
    session_options.gpu = &held;
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    stop_in_pass();
    for (unsigned i = 0; i < 5000; i++)
        session_step(ACTION_ACTIVE);
    atomic_store(&moment, 3);
    session_sleep(100);
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off until they are"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "1 trace, 4,097 events, at least 904 lost"),
                      1);
}
END_TEST

/* The thread that marks a step loses the processor before it hands the edge to the cprof thread.
 * Other threads record in the new step meanwhile. */
START_TEST(delayed_step_edge_loses_no_spans)
{
    session_start(ACTION_SKIP, false);
    struct step_edge edge = {
        .step = 1, .ended = ACTION_SKIP, .begun = ACTION_ACTIVE, .time = {.batch = 1}};
    writer_edge_begin();
    edge.ticks = clock_ticks();
    writer_set_gate(SESSION_GATE);
    for (unsigned i = 0; i < 100; i++)
        session_span("span");
    writer_wake();
    session_sleep(300);
    writer_edge(&edge);
    edge = (struct step_edge){.step = 1, .ended = ACTION_ACTIVE, .kind = EDGE_LAST};
    edge.time.batch = 1;
    writer_edge_begin();
    edge.ticks = clock_ticks();
    writer_set_gate(0);
    writer_edge(&edge);
    writer_finish();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 100);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* The message limit protects the program's log, but must not hide losses. */
START_TEST(exit_line_ignores_the_message_limit)
{
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    for (unsigned i = 0; i < 150; i++)
        log_warn("line %u", i);
    log_error("something fails");
    session_end();
    const char *said = capture_stderr();
    ck_assert_uint_eq(capture_lines(said, "cprof: rank 0: 1 trace, "), 1);
    ck_assert_uint_eq(capture_lines(said, "something fails"), 1);
    ck_assert_uint_lt(capture_lines(said, ""), 110);
}
END_TEST

Suite *suite_writer_counts(void)
{
    Suite *suite = suite_create("writer_counts");
    TCase *counts = tcase_create("counts");
    tcase_add_checked_fixture(counts, session_setup, session_teardown);
    tcase_set_timeout(counts, 60);
    tcase_add_test(counts, each_window_holds_exactly_its_spans);
    tcase_add_test(counts, keeps_a_span_that_ends_during_the_flush);
    tcase_add_test(counts, late_request_for_skipped_markers_counts_no_loss);
    tcase_add_test(counts, late_loss_counts_for_the_spans_window);
    tcase_add_test(counts, full_edge_queue_makes_no_extra_windows);
    tcase_add_test(counts, delayed_step_edge_loses_no_spans);
    tcase_add_test(counts, exit_line_ignores_the_message_limit);
    tcase_add_test(counts, records_plus_losses_equal_the_spans_made);
    tcase_add_test(counts, counts_records_beyond_the_file_limit);
    tcase_add_test(counts, continuous_recording_starts_the_next_file);
    suite_add_tcase(suite, counts);
    return suite;
}
