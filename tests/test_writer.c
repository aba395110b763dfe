/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/writer.h from the first edge to the exit line, with the real cprof thread and real files: what stands in which
 * file, what is kept and what is thrown away, what is counted, and what happens when something fails. */
#include "writer/writer.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/session.h"

static void sleep_ms(unsigned ms)
{
    usleep(ms * 1000);
}

static struct open_span *begin(const char *name)
{
    return span_open(thread_log_get(), name, CAT_USER_ANNOTATION, name, (uint32_t)strlen(name));
}

static void end(const char *name)
{
    span_close(thread_log_get(), name);
}

/* Fails unless the file counts this many losses of a cause, and no others. */
static void check_lost(const struct trace *t, const char *cause, unsigned n)
{
    const char *account = strstr(t->text, "\"lost\": {");
    ck_assert_ptr_nonnull(account);
    ck_assert_int_eq((int)trace_number(account, cause), (int)n);
    ck_assert_int_eq((int)trace_number(account, "total"), (int)n);
}

/* ---- which file ------------------------------------------------------------------------------------------ */

START_TEST(one_window)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
    for (unsigned i = 0; i < 1000; i++)
        session_span("span");
    session_instant("instant", 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("second");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1000);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "instant"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#1"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#2"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL), 1003);
    ck_assert_int_eq((int)trace_number(t.text, "records"), 1002);
    ck_assert_int_eq((int)trace_number(t.text, "events"), 1004);
    ck_assert_ptr_nonnull(strstr(t.text, "\"complete\": true, \"partial\": false"));
    check_lost(&t, "total", 0);
    trace_free(&t);
    const char *said = capture_stderr();
    ck_assert_uint_eq(capture_lines(said, ""), 1);
    ck_assert_uint_eq(capture_lines(said, "cprof: rank 0: 1 trace, 1,004 events, 0 lost: /tmp/"),
                      1);
    ck_assert_str_eq(capture_stdout(), "");
    writer_finish(); /* again: nothing */
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

START_TEST(what_comes_before_and_after_is_dropped_silently)
{
    session_start(ACTION_SKIP, false);
    session_span("before"); /* as by a thread that saw the gate a moment too late */
    begin("across");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("inside");
    end("across");
    session_step(ACTION_SKIP);
    session_span("after");
    session_instant("after", 0);
    session_end();
    session_span("much later");
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL), 2);
    ck_assert_uint_eq(trace_count(&t, 'i', NULL), 0);
    check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* A span of another thread that begins and ends when told. */
static struct {
    pthread_t thread;
    pthread_barrier_t barrier;
} other;

static void *open_when_told(void *unused)
{
    pthread_barrier_wait(&other.barrier);
    begin("across");
    pthread_barrier_wait(&other.barrier);
    pthread_barrier_wait(&other.barrier);
    end("across");
    pthread_barrier_wait(&other.barrier);
    return unused;
}

static void start_other(void)
{
    pthread_barrier_init(&other.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&other.thread, NULL, open_when_told, NULL), 0);
}

START_TEST(a_span_belongs_where_it_starts)
{
    start_other();
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    pthread_barrier_wait(&other.barrier);
    pthread_barrier_wait(&other.barrier);
    session_step(ACTION_ACTIVE_AND_SAVE); /* back to back */
    session_span("second");
    sleep_ms(100);
    pthread_barrier_wait(&other.barrier);
    pthread_barrier_wait(&other.barrier);
    pthread_join(other.thread, NULL);
    session_step(ACTION_SKIP);
    session_end();
    struct trace first = session_trace(2), second = session_trace(3);
    const char *event = trace_event(&first, 'X', "across");
    ck_assert_ptr_nonnull(event);
    ck_assert(trace_number(event, "dur") > 90000);
    ck_assert_ptr_null(strstr(event, "finished"));
    ck_assert_uint_eq(trace_named(&first, 'X', "across"), 1);
    ck_assert_uint_eq(trace_named(&first, 'X', "second"), 0);
    ck_assert_uint_eq(trace_named(&second, 'X', "across"), 0);
    ck_assert_uint_eq(trace_named(&second, 'X', "second"), 1);
    ck_assert_int_eq((int)trace_number(first.text, "unfinished"), 0);
    trace_free(&first);
    trace_free(&second);
}
END_TEST

START_TEST(a_span_that_stays_open_is_unfinished)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    begin("forever");
    session_span("inside");
    sleep_ms(20);
    session_step(ACTION_SKIP);
    for (unsigned i = 0; i < 100 && session_files("t2.json") != session_files(""); i++)
        sleep_ms(50);
    sleep_ms(700);
    end("forever"); /* long after its file */
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "forever"), 1);
    const char *event = trace_event(&t, 'X', "forever");
    ck_assert_ptr_nonnull(strstr(event, "\"finished\": \"false\""));
    double dur = trace_number(event, "dur");
    ck_assert(dur > 15000 && dur < 500000); /* to the window's end, not to the file's */
    ck_assert_int_eq((int)trace_number(t.text, "unfinished"), 1);
    check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 1);
}
END_TEST

START_TEST(open_spans_at_exit)
{
    char name[3000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    session_start(ACTION_ACTIVE, false);
    begin("outer");
    begin(name);
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_count(&t, 'X', "\"finished\": \"false\""), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "outer"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', "\"nnnnnnnnnnnnnnnnnnnnnnnnnn"), 1); /* cut */
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": true"));
    trace_free(&t);
}
END_TEST

START_TEST(an_empty_window_leaves_no_file)
{
    session_start(ACTION_ACTIVE, false);
    session_end();
    ck_assert_uint_eq(session_files(""), 0);
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

/* ---- before the first window ----------------------------------------------------------------------------- */

START_TEST(markers_of_warmup_stand_at_the_head)
{
    bool twice = _i == 1;
    session_start(ACTION_SKIP, false);
    session_instant("skipped", REC_MARKER);
    session_step(ACTION_WARMUP);
    session_instant("first", REC_MARKER);
    session_span("operator"); /* not a marker */
    span_add_flags(begin("marker"), REC_MARKER);
    end("marker");
    if (twice) {
        session_step(ACTION_WARMUP);
        session_instant("second", REC_MARKER);
    }
    span_add_flags(begin("open marker"), REC_MARKER);
    begin("open operator");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_instant("inside", 0);
    session_step(ACTION_WARMUP);
    session_instant("of the next", REC_MARKER);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(twice ? 4 : 3);
    ck_assert_uint_eq(trace_named(&t, 'i', "skipped"), 0);
    ck_assert_uint_eq(trace_named(&t, 'i', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "second"), twice);
    ck_assert_uint_eq(trace_named(&t, 'X', "marker"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "inside"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "operator"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "open operator"), 0); /* nor as unfinished */
    ck_assert_uint_eq(trace_named(&t, 'X', "open marker"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "of the next"), 0);
    check_lost(&t, "total", 0);
    trace_free(&t);
    t = session_trace(twice ? 6 : 5);
    ck_assert_uint_eq(trace_named(&t, 'i', "of the next"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "inside"), 0);
    trace_free(&t);
}
END_TEST

START_TEST(step_0_is_the_trace_of_a_program_without_marks)
{
    session_start(_i == 0 ? ACTION_SKIP : ACTION_WARMUP, true);
    for (unsigned i = 0; i < 500; i++)
        session_span("kept");
    session_instant("marker", REC_MARKER);
    begin("open");
    sleep_ms(50); /* so that some of it is taken out of the ring before the end */
    session_span("kept");
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "kept"), 501);
    ck_assert_uint_eq(trace_named(&t, 'i', "marker"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "open"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": false"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": false"));
    check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "no step was marked"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "502 events, 0 lost"), 1);
}
END_TEST

START_TEST(the_first_mark_throws_step_0_away)
{
    bool warm = _i == 1; /* the schedule warms up in step 0: its markers stay */
    session_start(warm ? ACTION_WARMUP : ACTION_SKIP, true);
    session_span("operator");
    session_instant("marker", REC_MARKER);
    begin("range");
    sleep_ms(_i == 1 ? 50 : 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("inside");
    end("range");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "operator"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "range"), 0);
    ck_assert_uint_eq(trace_named(&t, 'i', "marker"), warm);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": true"));
    check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(step_0_is_kept_up_to_a_limit)
{
    session_options.hold_bytes = 100000;
    session_start(ACTION_SKIP, true);
    unsigned made = 0;
    while (gate_open(GATE_SPANS) && made < 1000000) {
        session_span("kept");
        made++;
        if (made % 100 == 0)
            sleep_ms(1);
    }
    ck_assert_uint_lt(made, 1000000); /* the cprof thread closed the gate */
    session_end();
    struct trace t = session_trace(0);
    unsigned kept = trace_named(&t, 'X', "kept");
    ck_assert_uint_gt(kept, 300);
    ck_assert_uint_lt(kept, made);
    check_lost(&t, "before_first_step_full", made - kept);
    ck_assert_ptr_nonnull(strstr(t.text, "more came before the first step mark than is kept"));
    trace_free(&t);
}
END_TEST

static void *span_of_a_short_life(void *name)
{
    session_span(name);
    return NULL;
}

START_TEST(what_is_kept_keeps_its_thread)
{
    session_start(ACTION_SKIP, true);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (unsigned i = 0; i < 6; i++) { /* each takes over the log of the one before */
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, span_of_a_short_life, (void *)names[i]), 0);
        pthread_join(thread, NULL);
        sleep_ms(60);
    }
    session_end();
    struct trace t = session_trace(0);
    double tids[6];
    for (unsigned i = 0; i < 6; i++) {
        char part[32];
        snprintf(part, sizeof part, "\"name\": \"%s\"", names[i]);
        tids[i] = trace_number(trace_event(&t, 'X', part), "tid");
        ck_assert(tids[i] > 0);
        for (unsigned k = 0; k < i; k++)
            ck_assert(tids[k] != tids[i]);
    }
    trace_free(&t);
}
END_TEST

/* ---- exact counts ---------------------------------------------------------------------------------------- */

#define THREADS 8u
#define SPANS   60000u

static struct {
    _Atomic bool over;
    uint64_t starts[THREADS][SPANS]; /* of each span made */
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

START_TEST(exactly_what_was_made_stands_in_each_window)
{
    enum { WINDOWS = 6 };
    static const enum action kinds[] = {ACTION_ACTIVE_AND_SAVE, ACTION_SKIP, ACTION_WARMUP};
    uint64_t from[WINDOWS], to[WINDOWS];
    int64_t batch[WINDOWS];
    session_start(ACTION_SKIP, false);
    start_workers(16);
    int64_t step = 0;
    for (unsigned i = 0; i < WINDOWS; i++) {
        for (unsigned k = 0; i % 2 == 0 && k < 2; k++, step++) /* every other one back to back */
            session_step(kinds[1 + k]);
        from[i] = session_step(ACTION_ACTIVE);
        sleep_ms(i == 3 ? 400 : 25);
        session_step(ACTION_ACTIVE_AND_SAVE);
        step += 2;
        sleep_ms(25);
        batch[i] = step + 1;
        if (i % 2 == 1 || i + 1 == WINDOWS)
            to[i] = session_step(ACTION_SKIP), step++;
        else
            to[i] = 0; /* the next one's edge */
        sleep_ms(i % 2 ? 15 : 0);
    }
    join_workers();
    session_end();
    for (unsigned i = 0; i < WINDOWS; i++) {
        struct trace t = session_trace(batch[i]);
        unsigned made = made_between(from[i], to[i] ? to[i] : from[i + 1]);
        unsigned seen = trace_named(&t, 'X', "outer") + trace_named(&t, 'X', "inner");
        ck_assert_uint_gt(made, 0);
        check_lost(&t, "total", 0);
        ck_assert_msg(seen == made, "window %u: %u made, %u in the file", i, made, seen);
        trace_free(&t);
    }
    ck_assert_uint_eq(session_files(".part"), 0);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ": 6 traces, "), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 1);
}
END_TEST

START_TEST(records_and_losses_make_all)
{
    session_options.ring_bytes = 65536;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
    start_workers(SPANS + 1); /* never pauses: the rings overflow */
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
    check_lost(&t, "ring_full", made - seen);
    ck_assert_int_eq((int)trace_number(t.text, "records"), (int)seen);
    trace_free(&t);
}
END_TEST

START_TEST(a_full_file_counts_the_rest)
{
    session_options.max_trace_bytes = 400000;
    session_start(ACTION_ACTIVE, false);
    for (unsigned i = 0; i < 20000; i++) {
        session_span("span");
        if (i % 2000 == 0)
            sleep_ms(20);
    }
    session_end();
    struct trace t = session_trace(0);
    unsigned seen = trace_named(&t, 'X', "span");
    ck_assert_uint_gt(seen, 2000);
    ck_assert_uint_lt(t.len, 700000);
    check_lost(&t, "file_limit", 20000 - seen);
    trace_free(&t);
}
END_TEST

START_TEST(a_continuous_recording_goes_on_in_the_next_file)
{
    session_options.continuous = true;
    session_options.max_trace_bytes = 400000;
    session_start(ACTION_ACTIVE, false);
    unsigned made = 0;
    while (session_files("") < 4 && made < 1000000) {
        for (unsigned i = 0; i < 200; i++)
            session_span("span");
        made += 200;
        sleep_ms(2);
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
        check_lost(&t, "total", 0);
        seen += trace_named(&t, 'X', "span");
        trace_free(&t);
    }
    ck_assert_uint_eq(seen, made);
}
END_TEST

/* A span that ends just when its file is finished: after the rings were drained, before the thread looks for open spans. */
static _Atomic int moment; /* 1: wait for the next flush, 2: it has begun, 3: the span has ended */

static void end_in_flush(struct trace_identity *out)
{
    *out = (struct trace_identity){.world_size = 1};
    int armed = 1;
    if (atomic_compare_exchange_strong(&moment, &armed, 2))
        while (atomic_load(&moment) != 3)
            usleep(100);
}

START_TEST(a_span_that_ends_at_the_last_moment)
{
    session_options.identity = end_in_flush;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    begin("across");
    session_span("inside");
    session_step(ACTION_SKIP);
    sleep_ms(30);
    atomic_store(&moment, 1);
    while (atomic_load(&moment) != 2)
        usleep(100);
    end("across");
    atomic_store(&moment, 3);
    sleep_ms(100);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "across"), 1);
    check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------------------- */

/* Lets the cprof thread wait inside a call of ours. */
static _Atomic bool held_back;
static _Atomic unsigned times_held;

static void hold_back(struct trace_identity *out)
{
    *out = (struct trace_identity){.world_size = 1};
    atomic_fetch_add(&times_held, 1);
    while (atomic_load(&held_back))
        usleep(1000);
}

static void wait_until_held(void)
{
    while (atomic_load(&times_held) == 0)
        usleep(1000);
}

#define MANY_STEPS 100000u

START_TEST(a_full_queue_of_edges_turns_recording_off)
{
    session_options.identity = hold_back;
    atomic_store(&held_back, true);
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    wait_until_held();
    unsigned steps = 0;
    while (gate_open(GATE_SPANS) && steps < MANY_STEPS) {
        session_step(ACTION_ACTIVE);
        steps++;
    }
    ck_assert_uint_gt(steps, 1000);
    ck_assert_uint_lt(steps, MANY_STEPS);
    for (unsigned i = 0; i < 50; i++)
        session_step(ACTION_ACTIVE);
    ck_assert(!gate_open(GATE_SPANS | GATE_MARKERS));
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
    atomic_store(&held_back, false);
    session_end();
    ck_assert_uint_eq(session_files(".part"), 0); /* what was recorded until then is a trace */
    ck_assert_uint_eq(session_files(""), 1);
}
END_TEST

START_TEST(a_folder_that_is_a_file)
{
    char file[160];
    snprintf(file, sizeof file, "%s/file", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    strcat(session_folder, "/file/traces");
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    for (unsigned i = 0; i < 200 && gate_open(GATE_SPANS); i++)
        sleep_ms(20);
    ck_assert(!gate_open(GATE_SPANS));
    for (unsigned i = 0; i < 20; i++) { /* the program goes on */
        session_step(ACTION_ACTIVE);
        ck_assert(!gate_open(GATE_SPANS));
        session_span("span");
    }
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off, the program goes on"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

START_TEST(no_memory_for_a_window)
{
    if (!alloc_is_ours)
        return;
    session_start(ACTION_SKIP, false);
    sleep_ms(100);
    alloc_fail_from(4096);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("lost");
    sleep_ms(100);
    session_step(ACTION_SKIP);
    sleep_ms(100);
    alloc_fail_from(0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(4);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "lost"), 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 0);
}
END_TEST

START_TEST(the_deadline_at_exit_holds)
{
    session_options.identity = hold_back;
    session_options.exit_deadline_ms = 300;
    atomic_store(&held_back, true);
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    wait_until_held();
    uint64_t before = clock_monotonic_ns();
    session_end();
    double ms = (double)(clock_monotonic_ns() - before) / 1e6;
    ck_assert(ms > 250 && ms < 2000);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "CPROF_DRAIN_DEADLINE_MS=300"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
    atomic_store(&held_back, false);
}
END_TEST

static bool pattern(char *text, unsigned long size)
{
    snprintf(text, size, "%s/t*.json", session_folder);
    return true;
}

START_TEST(traces_of_an_earlier_run_are_in_the_way)
{
    char file[160];
    snprintf(file, sizeof file, "%s/t7.json", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    session_options.trace_pattern = pattern;
    session_options.overwrite = _i == 1;
    session_options.run_started_ns = clock_wall_now() + INT64_C(3600000000000);
    if (_i == 2)
        session_options.run_started_ns = 1; /* it is of this run */
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    ck_assert_uint_eq(session_files(""), _i == 0 ? 1 : 2);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "in the way"), _i == 0);
    ck_assert(!_i || capture_lines(capture_stderr(), "1 trace") == 1);
}
END_TEST

START_TEST(a_name_that_is_taken)
{
    char file[160];
    struct stat st;
    snprintf(file, sizeof file, "%s/t0.json", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_int_eq(st.st_size, 0); /* not ours to touch */
    snprintf(file, sizeof file, "%s/t0-2.json", session_folder);
    struct trace t = trace_read(file);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "/t0-2.json\"\n}")); /* it knows its name */
    trace_free(&t);
}
END_TEST

/* ---- processes and threads ------------------------------------------------------------------------------- */

START_TEST(a_forked_child_is_inert)
{
    session_start(ACTION_ACTIVE, false);
    session_span("parent");
    begin("open");
    pid_t child = fork();
    if (child == 0) {
        writer_abandon();
        uint64_t before = clock_monotonic_ns();
        bool quiet = !gate_open(~0u) && !thread_log_get();
        writer_set_gate(SESSION_GATE);
        quiet = quiet && !gate_open(~0u);
        for (unsigned i = 0; i < 3000; i++)
            session_step(ACTION_ACTIVE);
        session_span("child");
        session_end();
        _exit(quiet && clock_monotonic_ns() - before < 1000000000 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    end("open");
    session_span("parent");
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "parent"), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "open"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "child"), 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

/* Waits for the second flush from now on to be over; the next one is far. */
static void wait_for_flush(const char *path)
{
    struct stat st = {0}, last = {0};
    for (unsigned changes = 0; changes < 3;) {
        sleep_ms(1);
        if (stat(path, &st) != 0 || memcmp(&st.st_mtim, &last.st_mtim, sizeof st.st_mtim) == 0)
            continue;
        last = st;
        changes++;
    }
    sleep_ms(30);
}

START_TEST(a_killed_process_leaves_a_whole_trace)
{
    pid_t child = fork();
    if (child == 0) {
        session_start(ACTION_ACTIVE, false);
        begin("open");
        for (unsigned i = 0;; i++) {
            session_span("span");
            if (i % 1000 == 0)
                sleep_ms(5);
        }
    }
    char path[256];
    snprintf(path, sizeof path, "%s/t0.json.%d.0.part", session_folder, (int)child);
    wait_for_flush(path);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    struct trace t = trace_read(path);
    ck_assert_uint_gt(trace_named(&t, 'X', "span"), 1000);
    ck_assert_uint_eq(trace_named(&t, 'X', "open"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"complete\": false"));
    trace_free(&t);
}
END_TEST

/* A line of /proc/self/task/TID/status of the thread named cprof; the test fails when there is none. */
static const char *of_the_thread(const char *key)
{
    static char line[256];
    char path[64];
    for (int tid = (int)getpid(); tid < (int)getpid() + 50; tid++) {
        bool found = false;
        snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file)) {
            found = found || strcmp(line, "Name:\tcprof\n") == 0;
            if (found && strncmp(line, key, strlen(key)) == 0) {
                fclose(file);
                return line + strlen(key);
            }
        }
        if (file)
            fclose(file);
    }
    ck_abort_msg("there is no thread named cprof");
    return NULL;
}

START_TEST(the_thread_is_a_good_guest)
{
    cpu_set_t mask, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    session_options.affinity = &mask;
    session_options.affinity_size = sizeof mask;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &mask))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0); /* as OpenMP pins */
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    session_start(ACTION_ACTIVE, false);
    sleep_ms(50);
    uint64_t blocked = strtoull(of_the_thread("SigBlk:"), NULL, 16);
    static const int signals[] = {SIGINT, SIGTERM, SIGPIPE, SIGPROF, SIGUSR1, SIGCHLD, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        ck_assert(blocked >> (signals[i] - 1) & 1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 64; i++)
        ck_assert_int_eq(sigismember(&before, i), sigismember(&after, i));
    char cpus[64], expected[64];
    snprintf(cpus, sizeof cpus, "%s", of_the_thread("Cpus_allowed_list:"));
    FILE *file = fopen("/proc/self/status", "re");
    while (fgets(expected, sizeof expected, file) &&
           strncmp(expected, "Cpus_allowed_list:", 18) != 0)
        ;
    fclose(file);
    ck_assert(CPU_COUNT(&mask) == 1 || strcmp(cpus, expected + 18) != 0);
    session_end();
}
END_TEST

START_TEST(a_rest_costs_no_wake_ups)
{
    session_start(ACTION_SKIP, false);
    sleep_ms(100);
    uint64_t before = strtoull(of_the_thread("voluntary_ctxt_switches:"), NULL, 10);
    for (unsigned i = 0; i < 200; i++)
        session_step(ACTION_SKIP);
    sleep_ms(300);
    uint64_t after = strtoull(of_the_thread("voluntary_ctxt_switches:"), NULL, 10);
    ck_assert_uint_le(after - before, 3);
    session_end();
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

/* ---- texts ----------------------------------------------------------------------------------------------- */

START_TEST(metadata_and_notes)
{
    session_start(ACTION_ACTIVE, false);
    ck_assert(writer_metadata("model", "\"first\""));
    ck_assert(writer_metadata("model", "\"re\\\"snet\""));
    ck_assert(writer_metadata("a \"key\"\n", "{\"x\": [1, 2]}"));
    writer_note("operators are \"off\"");
    for (unsigned i = 0; i < 30; i++)
        writer_note("again");
    session_span("span");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    session_step(ACTION_SKIP);
    session_end();
    for (int64_t batch = 2; batch <= 3; batch++) {
        struct trace t = session_trace(batch);
        ck_assert_ptr_nonnull(strstr(t.text, "\"model\": \"re\\\"snet\",\n"));
        ck_assert_ptr_null(strstr(t.text, "first\""));
        ck_assert_ptr_nonnull(strstr(t.text, "\"a \\\"key\\\"\\n\": {\"x\": [1, 2]},\n"));
        ck_assert_ptr_nonnull(
            strstr(t.text, "\"notes\": [\"operators are \\\"off\\\"\", \"again\""));
        trace_free(&t);
    }
    char key[32];
    unsigned taken = 2;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %u", i);
        taken += writer_metadata(key, "1");
    }
    ck_assert_uint_eq(taken, 64);
    ck_assert(writer_metadata("model", "2"));
}
END_TEST

static void identify(struct trace_identity *out)
{
    *out = (struct trace_identity){.rank = 3,
                                   .local_rank = 1,
                                   .world_size = 16,
                                   .local_world_size = 2,
                                   .node_rank = 1,
                                   .backend = "nccl",
                                   .source = "torchrun"};
}

START_TEST(the_head)
{
    session_options.identity = identify;
    session_options.record_shapes = true;
    session_options.profile_memory = true;
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    struct trace t = session_trace(0);
    ck_assert_ptr_nonnull(strstr(t.text, "\n\"rank\": 3,\n\"world_size\": 16,\n"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"backend\": \"nccl\""));
    ck_assert_ptr_nonnull(strstr(t.text, "\"rank_from\": \"torchrun\""));
    ck_assert_ptr_nonnull(strstr(t.text, "\"record_shapes\": 1"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"profile_memory\": 1"));
    ck_assert_ptr_null(strstr(t.text, "with_stack"));
    ck_assert(trace_number(t.text, "baseTimeNanoseconds") > 1.6e18);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "rank 3: 1 trace"), 1);
}
END_TEST

/* ---- arrows ---------------------------------------------------------------------------------------------- */

static void operator(const char *name, int64_t sequence, uint64_t forward_thread, uint8_t flags)
{
    struct open_span *span =
        span_open(thread_log_get(), name, CAT_CPU_OP, name, (uint32_t)strlen(name));
    span_set_node(span, sequence, forward_thread);
    span_add_flags(span, flags);
    end(name);
}

START_TEST(arrows_to_backward_operators)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    atomic_store(&thread_log_get()->torch_thread, 1);
    operator("forward", 5, 0, 0);
    operator("no node", -1, 0, 0);
    operator("range", 5, 1, REC_BORROWED);
    operator("backward", 5, 1, 0);
    operator("of another thread", 5, 2, 0);
    operator("of another number", 6, 1, 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    operator("backward", 5, 1, 0); /* its forward operator is in the other file */
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_count(&t, 's', NULL), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', NULL), 1);
    double id = trace_number(trace_event(&t, 's', NULL), "id");
    ck_assert(id == trace_number(trace_event(&t, 'f', NULL), "id"));
    ck_assert(id == trace_number(trace_event(&t, 'X', "backward\""), "External id"));
    trace_free(&t);
    t = session_trace(2);
    ck_assert_uint_eq(trace_count(&t, 's', NULL) + trace_count(&t, 'f', NULL), 0);
    trace_free(&t);
}
END_TEST

Suite *suite_writer(void)
{
    Suite *suite = suite_create("writer");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, session_setup, session_teardown);
    tcase_set_timeout(files, 60);
    tcase_add_test(files, one_window);
    tcase_add_test(files, what_comes_before_and_after_is_dropped_silently);
    tcase_add_test(files, a_span_belongs_where_it_starts);
    tcase_add_test(files, a_span_that_stays_open_is_unfinished);
    tcase_add_test(files, open_spans_at_exit);
    tcase_add_test(files, an_empty_window_leaves_no_file);
    tcase_add_loop_test(files, markers_of_warmup_stand_at_the_head, 0, 2);
    tcase_add_loop_test(files, step_0_is_the_trace_of_a_program_without_marks, 0, 2);
    tcase_add_loop_test(files, the_first_mark_throws_step_0_away, 0, 2);
    tcase_add_test(files, step_0_is_kept_up_to_a_limit);
    tcase_add_test(files, what_is_kept_keeps_its_thread);
    tcase_add_test(files, metadata_and_notes);
    tcase_add_test(files, the_head);
    tcase_add_test(files, arrows_to_backward_operators);
    suite_add_tcase(suite, files);

    TCase *counts = tcase_create("counts");
    tcase_add_checked_fixture(counts, session_setup, session_teardown);
    tcase_set_timeout(counts, 60);
    tcase_add_test(counts, exactly_what_was_made_stands_in_each_window);
    tcase_add_test(counts, a_span_that_ends_at_the_last_moment);
    tcase_add_test(counts, records_and_losses_make_all);
    tcase_add_test(counts, a_full_file_counts_the_rest);
    tcase_add_test(counts, a_continuous_recording_goes_on_in_the_next_file);
    suite_add_tcase(suite, counts);

    TCase *failures = tcase_create("failures");
    tcase_add_checked_fixture(failures, session_setup, session_teardown);
    tcase_set_timeout(failures, 60);
    tcase_add_test(failures, a_full_queue_of_edges_turns_recording_off);
    tcase_add_test(failures, a_folder_that_is_a_file);
    tcase_add_test(failures, no_memory_for_a_window);
    tcase_add_test(failures, the_deadline_at_exit_holds);
    tcase_add_loop_test(failures, traces_of_an_earlier_run_are_in_the_way, 0, 3);
    tcase_add_test(failures, a_name_that_is_taken);
    tcase_add_test(failures, a_forked_child_is_inert);
    tcase_add_test(failures, a_killed_process_leaves_a_whole_trace);
    tcase_add_test(failures, the_thread_is_a_good_guest);
    tcase_add_test(failures, a_rest_costs_no_wake_ups);
    suite_add_tcase(suite, failures);
    return suite;
}
