/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window/observers.c with the real cprof thread: which events observers get,
 * in which order, and which they miss. */
#include "writer/writer.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/session.h"

/* One word for each event. The cprof thread writes; the test reads after that thread has ended. */
static struct {
    char text[1u << 16];
    size_t len;
    unsigned marks, looks;
    _Atomic unsigned steps;          /* the test reads it meanwhile */
    struct train_moment first_start; /* of the last mark */
    struct train_moment last_end;
    unsigned sleep_us; /* in each step_end */
} heard;

static void put(const char *word, size_t len, long long number)
{
    if (heard.len + len + 32 < sizeof heard.text)
        heard.len += (size_t)snprintf(heard.text + heard.len, sizeof heard.text - heard.len,
                                      "%.*s%lld ", (int)len, word, number);
}

static void on_look(void)
{
    heard.looks++;
}

static void on_mark(const struct mark *m)
{
    heard.marks++;
    heard.first_start = m->start;
    heard.last_end = m->end;
    put(m->name, m->name_len, m->start.step);
}

static void on_step(const struct train_moment *at)
{
    heard.steps++;
    put("/", 1, at->step);
    usleep(heard.sleep_us);
}

static void on_epoch(const struct train_moment *at)
{
    put("epoch", 5, at->time.epoch);
}

static void on_open(const struct train_moment *at)
{
    put("[", 1, at->step);
}

static void on_close(const struct train_moment *at)
{
    put("]", 1, at->step);
}

static void on_file(const char *path)
{
    put(path, strlen(path), 0);
}

static void on_end(void)
{
    put("end", 3, 0);
}

static const struct listener listener = {on_look, on_mark,  on_step, on_epoch,
                                         on_open, on_close, on_file, on_end};

static void setup(void)
{
    memset(&heard, 0, sizeof heard);
    session_setup();
}

/* Makes a mark of the kind that handlers receive. */
static void mark(const char *name, uint8_t flags)
{
    struct open_span *span = session_open(name);
    ck_assert_ptr_nonnull(span);
    span_add_flags(span, REC_MARKER | flags);
    session_close(name);
}

START_TEST(reports_events_in_time_order)
{
    writer_listen(&listener);
    session_start(ACTION_SKIP, false);
    session_instant("no", REC_MARKER); /* no observer asked for it in this step */
    mark("skip", REC_SKIPPED);
    session_step(ACTION_WARMUP);
    mark("warm", 0);
    mark("task", REC_TASK);   /* reported, although no file has it */
    session_span("operator"); /* not a mark */
    session_step(ACTION_ACTIVE);
    mark("a", 0);
    session_instant("b", REC_MARKER);
    session_step(ACTION_ACTIVE_AND_SAVE);
    mark("c", 0);
    session_step(ACTION_SKIP);
    mark("late", REC_SKIPPED);
    session_step(ACTION_SKIP);
    session_end();
    const char *window = strstr(heard.text, "]3 ");
    ck_assert_ptr_nonnull(window);
    memmove((char *)window, window + 3,
            strlen(window + 3) +
                1); /* "]3" comes when the window's records were read, at no fixed place */
    ck_assert_str_eq(heard.text, "skip0 /0 warm1 task1 /1 [2 a2 b2 /2 c3 /3 late4 /4 end0 ");
    ck_assert_uint_gt(heard.looks, 0);
    ck_assert_int_le(heard.first_start.wall_ns, heard.last_end.wall_ns);
    ck_assert_uint_gt(writer_listener_ns(), 0);
}
END_TEST

START_TEST(reports_nothing_without_observers)
{
    session_start(ACTION_ACTIVE, false);
    mark("a", 0);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(writer_listener_ns(), 0);
    ck_assert(!writer_is_heard());
}
END_TEST

/* Old steps are thinned out, so a span that began long ago gets an approximate step. */
START_TEST(long_span_gets_an_approximate_first_step)
{
    enum { STEPS = 12000, BEGIN = 1000 };
    writer_listen(&listener);
    session_start(ACTION_ACTIVE, false);
    for (int i = 0; i < STEPS; i++) {
        if (i == BEGIN)
            span_add_flags(session_open("long"), REC_MARKER);
        session_step(ACTION_ACTIVE);
        while (heard.steps + 2000 < (unsigned)i)
            session_sleep(1);
    }
    session_close("long");
    session_end();
    ck_assert_uint_eq(heard.marks, 1);
    ck_assert_uint_eq(heard.steps, STEPS);
    ck_assert_int_le(heard.first_start.step, BEGIN);
    ck_assert_int_ge(heard.first_start.step, BEGIN - STEPS / 256);
    ck_assert_int_eq(heard.last_end.step, STEPS);
}
END_TEST

/* A slow observer may miss skipped steps, never recorded steps. */
START_TEST(slow_observer_misses_only_unrecorded_steps)
{
    heard.sleep_us = 100;
    writer_listen(&listener);
    session_start(ACTION_SKIP, false);
    for (int i = 0; i < 6000; i++)
        session_step(ACTION_SKIP);
    session_step(ACTION_ACTIVE);
    mark("a", 0);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_lt(heard.steps, 6000);
    ck_assert_uint_eq(heard.marks, 1);
    ck_assert_uint_eq(session_files(".json"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "are behind by 2048 steps"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off"), 0);
}
END_TEST

static void *mark_elsewhere(void *unused)
{
    for (int i = 0; i < 1000; i++)
        mark("other", 0);
    return unused;
}

START_TEST(reports_marks_before_their_step_ends)
{
    pthread_t thread;
    writer_listen(&listener);
    session_start(ACTION_ACTIVE, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, mark_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    session_step(ACTION_ACTIVE);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(heard.marks, 1000);
    const char *last = NULL;
    for (const char *at = heard.text; (at = strstr(at, "other0")) != NULL; at++)
        last = at;
    ck_assert_ptr_nonnull(last);
    ck_assert(strstr(heard.text, "/0") > last);
}
END_TEST

START_TEST(discarding_step_0_keeps_requested_markers)
{
    session_start(ACTION_SKIP, true); /* kept for a program without marks */
    writer_want_skipped();
    mark("asked", REC_SKIPPED);
    mark("kept", 0);
    session_step(ACTION_SKIP);
    mark("asked", REC_SKIPPED);
    session_step(ACTION_WARMUP);
    mark("warm", 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    mark("active", 0);
    session_step(ACTION_SKIP);
    mark("asked", REC_SKIPPED); /* no file follows */
    session_end();
    struct trace t = session_trace(4);
    ck_assert_uint_eq(trace_named(&t, 'X', "asked"), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "warm"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "active"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "kept"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(session_files(""), 1);
}
END_TEST

/* A program without step marks. Marks are reported once, whether the cprof thread reads them before
 * the exit or during the exit. */
START_TEST(reports_marks_of_a_saved_step_0_once)
{
    writer_listen(&listener);
    session_start(ACTION_SKIP, true);
    mark("early", 0);
    if (_i)
        session_sleep(50);
    mark("late", 0);
    session_end();
    ck_assert_uint_eq(heard.marks, 2);
    const char *open = strstr(heard.text, "[0"), *early = strstr(heard.text, "early0"),
               *late = strstr(heard.text, "late0");
    ck_assert_msg(open && early && late && early < late, "%s", heard.text);
}
END_TEST

/* The cprof thread finds the edge and the first mark in the same pass. */
START_TEST(reports_a_window_before_its_first_mark)
{
    writer_listen(&listener);
    session_start(ACTION_ACTIVE, false);
    mark("first", 0); /* made while the cprof thread sleeps for its first millisecond */
    session_sleep(50);
    session_end();
    ck_assert_uint_eq(heard.marks, 1);
    const char *open = strstr(heard.text, "[0"), *first = strstr(heard.text, "first0");
    ck_assert_msg(open && first && open < first, "%s", heard.text);
}
END_TEST

START_TEST(counts_marks_beyond_the_hold_limit)
{
    session_options.hold_bytes = 10000;
    session_start(ACTION_SKIP, false);
    writer_want_skipped();
    for (int i = 0; i < 1000; i++)
        mark("asked", REC_SKIPPED);
    session_sleep(200); /* the records are held */
    session_step(ACTION_ACTIVE);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    unsigned in_file = trace_named(&t, 'X', "asked");
    ck_assert_uint_gt(in_file, 10);
    trace_check_lost(&t, "before_first_step_full", 1000 - in_file);
    ck_assert_ptr_nonnull(strstr(t.text, "more markers came before a window than are kept"));
    trace_free(&t);
}
END_TEST

/* ---- marks in the middle of a pass ---- */

static pthread_barrier_t looking;
static _Atomic bool wait_in_look;
static unsigned looks_at_mark, looks_when_reported;

static void wait_for_a_mark_during_look(void)
{
    heard.looks++;
    if (!atomic_exchange(&wait_in_look, false))
        return;
    pthread_barrier_wait(&looking);
    pthread_barrier_wait(&looking); /* the mark has been made */
    looks_at_mark = heard.looks;
}

static void note_looks_at_mark(const struct mark *m)
{
    on_mark(m);
    looks_when_reported = heard.looks;
}

/* look() prepares a handler for the marks that follow. So a mark made during a look waits for the
 * next look. */
START_TEST(marks_during_a_look_wait_for_the_next)
{
    static struct listener waits;
    waits = listener;
    waits.look = wait_for_a_mark_during_look;
    waits.mark = note_looks_at_mark;
    pthread_barrier_init(&looking, NULL, 2);
    writer_listen(&waits);
    session_start(ACTION_ACTIVE, false);
    atomic_store(&wait_in_look, true);
    pthread_barrier_wait(&looking);
    mark("in between", 0);
    pthread_barrier_wait(&looking);
    session_end();
    ck_assert_uint_eq(heard.marks, 1);
    ck_assert_uint_gt(looks_when_reported, looks_at_mark);
}
END_TEST

Suite *suite_observers(void)
{
    Suite *s = suite_create("observers");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_add_test(c, reports_events_in_time_order);
    tcase_add_test(c, reports_nothing_without_observers);
    tcase_add_test(c, long_span_gets_an_approximate_first_step);
    tcase_add_test(c, slow_observer_misses_only_unrecorded_steps);
    tcase_add_test(c, reports_marks_before_their_step_ends);
    tcase_add_test(c, discarding_step_0_keeps_requested_markers);
    tcase_add_loop_test(c, reports_marks_of_a_saved_step_0_once, 0, 2);
    tcase_add_test(c, reports_a_window_before_its_first_mark);
    tcase_add_test(c, counts_marks_beyond_the_hold_limit);
    tcase_add_test(c, marks_during_a_look_wait_for_the_next);
    suite_add_tcase(s, c);
    return s;
}
