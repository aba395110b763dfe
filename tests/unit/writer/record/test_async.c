/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/async.c, of spans that cross each other (writer/record/emit.c), and of
 * spans that another thread ends (writer/record/cross_thread.c). The real cprof thread writes the
 * files. */
#include "writer/record/async.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/capture.h"
#include "tests/support/session.h"
#include "writer/writer.h"

#define THREADS 8
#define RANGES  20000

static uint64_t open_range(const char *name)
{
    return async_open(thread_log_get(), CAT_USER_ANNOTATION, 0, name, (uint32_t)strlen(name), NULL,
                      0);
}

static void *close_range_by_id(void *id)
{
    ck_assert(async_close(thread_log_get(), *(uint64_t *)id));
    return NULL;
}

START_TEST(range_belongs_to_the_window_where_it_starts)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    uint64_t id = open_range("across");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("in the second");
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, close_range_by_id, &id), 0);
    pthread_join(thread, NULL);
    ck_assert(!async_close(thread_log_get(), id));
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'b', "across"), 1);
    ck_assert_uint_eq(trace_named(&t, 'e', "across"), 1);
    ck_assert_ptr_null(strstr(trace_event(&t, 'b', "across"), "finished"));
    double begun_on = trace_number(trace_event(&t, 'b', "across"), "tid");
    ck_assert(begun_on != trace_number(trace_event(&t, 'e', "across"), "tid"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static void *end_keys(void *keys)
{
    for (char *key = keys; *key; key++)
        span_ended_elsewhere(key);
    return NULL;
}

static void open_key(const char *key, const char *name)
{
    struct open_span *span =
        span_open(thread_log_get(), key, CAT_USER_ANNOTATION, name, (uint32_t)strlen(name));
    ck_assert_ptr_nonnull(span);
    span_add_flags(span, REC_LOOSE);
}

/* More spans than the stack of open spans holds, each ended by another thread. Last, a span whose
 * key belonged to a span that ended before. */
START_TEST(own_thread_closes_a_span_ended_elsewhere)
{
    static char keys[1001], before[] = "x";
    memset(keys, 'k', sizeof keys - 1);
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    for (int i = 0; i < 1000; i += 200) {
        for (int k = i; k < i + 200; k++)
            open_key(&keys[k], "elsewhere");
        pthread_t thread;
        keys[i + 200] = '\0'; /* the thread ends those from i on */
        ck_assert_int_eq(pthread_create(&thread, NULL, end_keys, &keys[i]), 0);
        pthread_join(thread, NULL);
        keys[i + 200] = i + 200 < 1000 ? 'k' : '\0';
        session_span("goes on");
        spans_take_ended(thread_log_get());
        ck_assert_uint_eq(span_top(thread_log_get()), 0);
    }
    end_keys(before);
    open_key(before, "another");
    spans_take_ended(thread_log_get());
    ck_assert_uint_ne(span_close(thread_log_get(), before), 0);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'b', "elsewhere"), 1000);
    ck_assert_uint_eq(trace_named(&t, 'e', "elsewhere"), 1000);
    ck_assert_uint_eq(trace_named(&t, 'X', "goes on"), 5);
    ck_assert_uint_eq(trace_named(&t, 'X', "another"), 1);
    ck_assert_ptr_null(strstr(t.text, "\"finished\": false"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* An end on another thread must not end spans that the own thread opened since. */
START_TEST(inner_span_outlasts_an_end_elsewhere)
{
    static char key[] = "r";
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    struct thread_log *log = thread_log_get();
    open_key(key, "elsewhere");
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_keys, key), 0);
    pthread_join(thread, NULL);
    session_sleep(2);
    struct open_span *module = span_open(log, &module, CAT_MODULE, "module", 6);
    span_add_flags(module, REC_ENDS_LATE);
    spans_take_ended(log);
    session_sleep(2);
    ck_assert_uint_ne(span_close(log, &module), 0);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'e', "elsewhere"), 1);
    double took = trace_number(trace_event(&t, 'X', "module"), "dur");
    ck_assert_msg(took >= 2000 && took < 1e6, "%f us", took);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static void *begin_and_end(void *key)
{
    open_key(key, "left");
    end_keys(key); /* as if by another thread */
    session_sleep(20);
    return NULL;
}

/* The thread opens no more spans. The end of the thread must not become the end of the span. */
START_TEST(thread_end_keeps_an_end_made_elsewhere)
{
    static char key[] = "r";
    pthread_t thread;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, begin_and_end, key), 0);
    pthread_join(thread, NULL);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'b', "left"), 1);
    ck_assert_ptr_null(strstr(t.text, "\"finished\""));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* The own thread opens another operator before it learns of the end, and then nothing more. */
START_TEST(operator_ended_elsewhere_ends_before_the_next)
{
    static char keys[] = "ab";
    pthread_t thread;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    for (int i = 0; i < 2; i++) {
        struct open_span *span =
            span_open(thread_log_get(), &keys[i], CAT_CPU_OP, i ? "next" : "first", i ? 4 : 5);
        ck_assert_ptr_nonnull(span);
        span_add_flags(span, REC_LOOSE);
        session_sleep(2);
    }
    keys[1] = '\0';
    ck_assert_int_eq(pthread_create(&thread, NULL, end_keys, keys), 0);
    pthread_join(thread, NULL);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    const char *first = trace_event(&t, 'X', "first");
    ck_assert_ptr_null(strstr(first, "finished"));
    double end = trace_number(first, "ts") + trace_number(first, "dur");
    double next = trace_number(trace_event(&t, 'X', "next"), "ts");
    ck_assert_msg(end <= next + 0.001, "%f behind %f", end, next);
    trace_free(&t);
}
END_TEST

/* The spans end while nothing is recorded. Ends of spans that began then leave no notes. */
START_TEST(closes_a_span_ended_elsewhere_between_windows)
{
    static char keys[301], others[2001];
    memset(keys, 'k', sizeof keys - 1);
    memset(others, 'o', sizeof others - 1);
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    for (int window = 0; window < 3; window++) {
        for (int k = 0; k < 300; k++)
            open_key(&keys[k], "elsewhere");
        session_step(ACTION_SKIP);
        pthread_t thread;
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(pthread_create(&thread, NULL, end_keys, i ? others : keys), 0);
            pthread_join(thread, NULL);
        }
        session_step(ACTION_ACTIVE_AND_SAVE);
        spans_take_ended(thread_log_get());
        ck_assert_uint_eq(span_top(thread_log_get()), 0);
    }
    end_keys(others); /* no span is open: the notes are not searched */
    session_span("last");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(7);
    ck_assert_uint_eq(trace_named(&t, 'X', "last"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static void end_elsewhere(char *keys)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_keys, keys), 0);
    pthread_join(thread, NULL);
}

static void open_operator(const char *key, const char *name)
{
    struct open_span *span =
        span_open(thread_log_get(), key, CAT_CPU_OP, name, (uint32_t)strlen(name));
    ck_assert_ptr_nonnull(span);
    span_add_flags(span, REC_LOOSE);
}

/* Fails unless the named span is finished and took from least to most us. */
static void check_took(const struct trace *t, char phase, const char *name, double least,
                       double most)
{
    const char *event = trace_event(t, phase, name);
    ck_assert_msg(event && !strstr(event, "finished"), "%s", name);
    double began = trace_number(event, "ts");
    double took = phase == 'X' ? trace_number(event, "dur")
                               : trace_number(trace_event(t, 'e', name), "ts") - began;
    ck_assert_msg(took >= least && took < most, "%s: %f us", name, took);
}

/* More operators than may be open. Each is ended elsewhere: before its thread goes on, while the
 * next span is open, or after the range around the operator. */
START_TEST(operator_ended_elsewhere_stays_in_its_row)
{
    static char before[] = "b", during[] = "d", behind[] = "r", around[] = "a", after[] = "n";
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    struct thread_log *log = thread_log_get();
    for (int i = 0; i < 700; i++) {
        open_operator(before, "ended before");
        session_sleep(i == 0 ? 5 : 0);
        end_elsewhere(before);
        session_sleep(i == 0 ? 50 : 0);
        session_span("next");
        ck_assert_uint_eq(span_top(log), 0);
    }
    open_operator(during, "ended during");
    session_sleep(5);
    open_operator(after, "goes on");
    uint64_t inner = span_top(log);
    session_span("inside");
    session_sleep(50);
    end_elsewhere(during);
    session_span("inside");
    ck_assert_uint_eq(span_top(log), inner);
    ck_assert_uint_ne(span_close(log, after), 0);
    ck_assert_uint_eq(span_top(log), 0);
    open_key(around, "around");
    open_operator(before, "ended in time");
    end_elsewhere(before);
    ck_assert_uint_ne(span_close(log, around), 0);
    ck_assert_uint_eq(span_top(log), 0);
    open_key(around, "around it");
    open_operator(behind, "ended behind");
    ck_assert_uint_ne(span_close(log, around), 0);
    session_sleep(5);
    end_elsewhere(behind);
    session_span("next");
    ck_assert_uint_eq(span_top(log), 0);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ended before"), 700);
    ck_assert_uint_eq(trace_named(&t, 'X', "next"), 701);
    check_took(&t, 'X', "ended before", 5000, 50000);
    check_took(&t, 'X', "ended during", 5000, 50000);
    check_took(&t, 'X', "goes on", 50000, 1e7);
    check_took(&t, 'X', "ended in time", 0, 1e7);
    check_took(&t, 'b', "ended behind", 5000, 1e7);
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 2);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static void *wait_open(void *key)
{
    open_operator(key, "of a thread that rests");
    session_sleep(5);
    end_elsewhere(key);
    session_sleep(2000);
    return NULL;
}

/* The own thread never learns of the end, but the file has it. */
START_TEST(file_has_an_end_unknown_to_the_thread)
{
    static char key[] = "r";
    pthread_t thread;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_open, key), 0);
    session_sleep(1000);
    session_step(ACTION_SKIP);
    session_await_trace(1);
    pthread_join(thread, NULL);
    session_end();
    struct trace t = session_trace(1);
    check_took(&t, 'X', "of a thread that rests", 5000, 900000);
    ck_assert_int_eq((int)trace_number(t.text, "unfinished"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 1);
}
END_TEST

static void *open_too_many(void *unused)
{
    static char keys[SPAN_DEPTH + 10];
    for (unsigned i = 0; i < sizeof keys; i++)
        span_open(thread_log_get(), &keys[i], CAT_CPU_OP, "op", 2);
    snprintf(unused, 64, "(thread %u lost 10, too_deep, from ",
             atomic_load(&thread_log_get()->tid));
    return NULL;
}

START_TEST(exit_line_names_the_thread_with_most_losses)
{
    char said[64];
    pthread_t thread;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    thread_log_lost(thread_log_get(), LOSS_TEXT, 3);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_too_many, said), 0);
    pthread_join(thread, NULL);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 13 lost: "), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), said), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " UTC on; 1 other lost less)"), 1);
}
END_TEST

START_TEST(open_range_is_marked_unfinished)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    uint64_t id = open_range("forever");
    session_sleep(20);
    session_step(ACTION_SKIP);
    session_sleep(1500);
    ck_assert(async_close(thread_log_get(), id)); /* long after the window's file was written */
    session_end();
    struct trace t = session_trace(2);
    const char *event = trace_event(&t, 'b', "forever");
    ck_assert_ptr_nonnull(event);
    ck_assert_ptr_nonnull(strstr(event, "\"finished\": \"false\""));
    ck_assert_uint_eq(trace_named(&t, 'e', "forever"), 1);
    ck_assert_int_eq((int)trace_number(t.text, "unfinished"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 1);
}
END_TEST

/* Spans have extras (stacks, FLOPs …), ranges have none. A range must not show the extras of the
 * span that was written before it. */
START_TEST(open_range_shows_no_extras_of_a_span)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct thread_log *log = thread_log_get();
    ck_assert(stack_table_start(256));
    struct open_span *span = session_open("with a stack");
    span_set_extra(log, span, EXTRA_STACK, stack_table_python(0, "a.py", 4, "f", 1, 7));
    uint64_t id = open_range("range");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert(async_close(log, id));
    struct trace t = session_trace(2);
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'X', "with a stack"), "\"sf\": "));
    const char *event = trace_event(&t, 'b', "range");
    ck_assert_msg(!strstr(event, "\"sf\": "), "%s", event);
    trace_free(&t);
}
END_TEST

/* A destructor that runs after cprof's own ends ranges. Their records are lost, but their places
 * are free again. */
static uint64_t ranges[2500]; /* two rounds are more than may be open at once */
static pthread_key_t late;

static void close_late(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 2500; i++)
        ck_assert(async_close(thread_log_get(), ranges[i]) && !async_close(NULL, ranges[i]));
}

static void *close_at_end(void *unused)
{
    ck_assert_ptr_nonnull(thread_log_get());
    ck_assert_int_eq(pthread_setspecific(late, ranges), 0);
    return unused;
}

START_TEST(late_destructor_closes_ranges)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    session_span("ours");
    ck_assert_int_eq(pthread_key_create(&late, close_late), 0);
    for (unsigned round = 0; round < 2; round++) {
        pthread_t thread;
        for (unsigned i = 0; i < 2500; i++)
            ck_assert_uint_ne(ranges[i] = open_range("gone"), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, close_at_end, NULL), 0);
        pthread_join(thread, NULL);
    }
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'b', "gone"), 0);
    trace_check_lost(&t, "no_memory_for_thread", 5000);
    trace_check_lost(&t, "total", 5000);
    trace_free(&t);
}
END_TEST

START_TEST(saved_step_0_keeps_its_ranges)
{
    session_start(ACTION_SKIP, true);
    ck_assert(async_close(thread_log_get(), open_range("kept")));
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'b', "kept"), 1);
    trace_free(&t);
}
END_TEST

/* Names of different lengths, so that a wrong move of names or data shows. */
START_TEST(crossing_spans_keep_names_and_data)
{
    static const char *const names[] = {"a", "a longer name than the others have", "", "four"};
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct thread_log *log = thread_log_get();
    for (int i = 0; i < 4; i++) {
        struct open_span *span =
            span_open(log, &names[i], CAT_USER_ANNOTATION, names[i], (uint32_t)strlen(names[i]));
        span_add_flags(span, REC_LOOSE);
        uint8_t item[] = {ARG_INT, 1, 0, (uint8_t)('k' + i), (uint8_t)i, 0, 0, 0, 0, 0, 0, 0};
        memcpy(span_data_room(log, span, sizeof item), item, sizeof item);
        span_data_done(log, span, DATA_ARGS, sizeof item);
    }
    static const int order[] = {1, 0, 3, 2};
    for (int i = 0; i < 4; i++)
        span_close(log, &names[order[i]]);
    ck_assert_uint_eq(log->text_used, 0);
    ck_assert_uint_eq(log->data_used, 0);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'b', names[1]), "\"l\": 1}"));
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'b', "\"a\""), "\"k\": 0}"));
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'X', "four"), "\"n\": 3}"));
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'X', "\"name\": \"\""), "\"m\": 2}"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Each thread has two ranges and two crossing spans open at any time, while the cprof thread reads
 * open spans. */
static void *work(void *unused)
{
    struct thread_log *log = thread_log_get();
    uint64_t last = 0;
    for (uintptr_t i = 1; i <= RANGES; i++) {
        uint64_t id = open_range("a range");
        ck_assert_uint_ne(id, last);
        struct open_span *span =
            span_open(log, (void *)(i << 1), CAT_USER_ANNOTATION, "a span", (uint32_t)(i % 7));
        span_add_flags(span, REC_LOOSE);
        if (i > 1) {
            ck_assert(async_close(log, last));
            span_close(log, (void *)((i - 1) << 1));
        }
        last = id;
        if (i % 100 == 0)
            session_sleep(1);
    }
    async_close(log, last);
    span_close(log, (void *)((uintptr_t)RANGES << 1));
    return unused;
}

START_TEST(records_ranges_of_many_threads)
{
    pthread_t threads[THREADS];
    session_options.ring_bytes = 8u << 20;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_count(&t, 'b', NULL), 2 * THREADS * RANGES - THREADS);
    ck_assert_uint_eq(trace_count(&t, 'e', NULL), 2 * THREADS * RANGES - THREADS);
    ck_assert_uint_eq(trace_named(&t, 'b', "a range"), THREADS * RANGES);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(late_thread_name_reaches_the_file)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    session_sleep(400); /* now its row has a name */
    writer_name_thread(atomic_load(&thread_log_get()->tid), "\"worker\"", 8);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_count(&t, 'M', "\\\"worker\\\""), 1);
    trace_free(&t);
}
END_TEST

Suite *suite_async(void)
{
    Suite *suite = suite_create("async");
    TCase *tc = tcase_create("async");
    tcase_add_checked_fixture(tc, session_setup, session_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, range_belongs_to_the_window_where_it_starts);
    tcase_add_test(tc, own_thread_closes_a_span_ended_elsewhere);
    tcase_add_test(tc, inner_span_outlasts_an_end_elsewhere);
    tcase_add_test(tc, thread_end_keeps_an_end_made_elsewhere);
    tcase_add_test(tc, operator_ended_elsewhere_ends_before_the_next);
    tcase_add_test(tc, closes_a_span_ended_elsewhere_between_windows);
    tcase_add_test(tc, operator_ended_elsewhere_stays_in_its_row);
    tcase_add_test(tc, file_has_an_end_unknown_to_the_thread);
    tcase_add_test(tc, exit_line_names_the_thread_with_most_losses);
    tcase_add_test(tc, open_range_is_marked_unfinished);
    tcase_add_test(tc, open_range_shows_no_extras_of_a_span);
    tcase_add_test(tc, late_destructor_closes_ranges);
    tcase_add_test(tc, saved_step_0_keeps_its_ranges);
    tcase_add_test(tc, crossing_spans_keep_names_and_data);
    tcase_add_test(tc, records_ranges_of_many_threads);
    tcase_add_test(tc, late_thread_name_reaches_the_file);
    suite_add_tcase(suite, tc);
    return suite;
}
