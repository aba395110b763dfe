/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/numbered.h: numbers of names, from many threads at once and without room.
 * Rings, open spans and files must show the text of a numbered name. */
#include "writer/record/numbered.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/capture.h"
#include "tests/support/records.h"
#include "tests/support/session.h"
#include "writer/record/open_copy.h"

#define THREADS 8
#define NAMES   1000

static uint32_t number(const char *name)
{
    return numbered_name(name, (uint32_t)strlen(name));
}

static void assert_text(uint32_t name, const char *text)
{
    struct text is = name_text(name, NULL);
    ck_assert_uint_ne(name & NAME_NUMBERED, 0);
    ck_assert_uint_eq(name_bytes(name), 0);
    ck_assert_uint_eq(is.len, strlen(text));
    ck_assert_mem_eq(is.at, text, is.len);
}

START_TEST(gives_each_name_one_number)
{
    char copy[] = "aten::mm";
    uint32_t mm = number(copy), none = number("");
    memset(copy, 'x', sizeof copy - 1); /* the table keeps a copy of the text */
    assert_text(mm, "aten::mm");
    assert_text(none, "");
    ck_assert_uint_eq(number("aten::mm"), mm);
    ck_assert_uint_ne(number("aten::mmm"), mm);
    ck_assert_uint_ne(number("aten::m"), mm);
    ck_assert_uint_eq(numbered_name("aten::mm and more", 8), mm);
    assert_text(mm, "aten::mm");
}
END_TEST

START_TEST(long_name_stays_in_its_record)
{
    static char name[NUMBERED_LONGEST + 2];
    memset(name, 'n', NUMBERED_LONGEST + 1);
    ck_assert_uint_eq(numbered_name(name, NUMBERED_LONGEST + 1), NUMBERED_LONGEST + 1);
    ck_assert_uint_ne(numbered_name(name, NUMBERED_LONGEST) & NAME_NUMBERED, 0);
    ck_assert_uint_eq(name_bytes(NUMBERED_LONGEST + 1), NUMBERED_LONGEST + 1);
    ck_assert_ptr_eq(name_text(NUMBERED_LONGEST + 1, name).at, name);
}
END_TEST

/* The 1024 longest names that markers may number (preload/markers/markers.c) leave room for the
 * operator names of torch. */
START_TEST(long_names_leave_room_for_operators)
{
    char name[NUMBERED_LONGEST + 1];
    for (unsigned n = 0; n < 1024; n++) {
        snprintf(name, sizeof name, "%0*u", (int)NUMBERED_LONGEST, n);
        ck_assert_uint_ne(number(name) & NAME_NUMBERED, 0);
    }
    for (unsigned n = 0; n < 4096; n++) {
        snprintf(name, sizeof name, "aten::operator_that_has_number_%u", n % 3000);
        ck_assert_msg(number(name) & NAME_NUMBERED, "%s has no number", name);
    }
}
END_TEST

START_TEST(caches_the_number_of_a_name)
{
    static _Atomic uint32_t found;
    ck_assert_uint_eq(numbered_before(&found), 0);
    uint32_t name = numbered_once(&found, "cudaLaunchKernel", 16);
    ck_assert_uint_eq(numbered_before(&found), name);
    assert_text(name, "cudaLaunchKernel");
}
END_TEST

/* A name without room gets no number. Earlier numbers stay valid. */
START_TEST(names_beyond_the_limit_get_no_number)
{
    char name[64];
    unsigned n = 0, first_refused = 0;
    for (; n < 2 * NUMBERED_MOST; n++) {
        snprintf(name, sizeof name, _i ? "name %u" : "a rather long name, number %u", n);
        uint32_t is = number(name);
        if (is & NAME_NUMBERED) {
            ck_assert_msg(!first_refused, "%s has a number, an earlier name has none", name);
            continue;
        }
        ck_assert_uint_eq(is, strlen(name));
        first_refused = first_refused ? first_refused : n;
    }
    ck_assert_uint_gt(first_refused, NUMBERED_MOST / 2);
    ck_assert_uint_le(first_refused, NUMBERED_MOST);
    for (n = 0; n < first_refused; n++) {
        snprintf(name, sizeof name, _i ? "name %u" : "a rather long name, number %u", n);
        assert_text(number(name), name);
    }
}
END_TEST

static pthread_barrier_t barrier;

static void *number_all(void *names)
{
    uint32_t *mine = names;
    char name[32];
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "thread name %u", i);
        mine[i] = number(name);
    }
    return names;
}

START_TEST(threads_get_the_same_numbers)
{
    static uint32_t names[THREADS][NAMES];
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, number_all, names[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert_mem_eq(names[i], names[0], sizeof names[0]);
    char name[32];
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "thread name %u", i);
        assert_text(names[0][i], name);
    }
}
END_TEST

/* ---- numbered names in records and files ---- */

static const struct record *next_record(struct thread_log *log)
{
    static struct {
        struct record r;
        char bytes[1024];
    } copy;
    const struct record *r = ring_peek(&log->ring, ring_head(&log->ring));
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_le(r->slots * RECORD_SLOT, sizeof copy);
    memcpy(&copy, r, r->slots * RECORD_SLOT);
    ring_take(&log->ring, r);
    return &copy.r;
}

static struct thread_log *record_here(void)
{
    clock_start();
    ck_assert(thread_log_start(1u << 16));
    atomic_store(&writer_gate, GATE_SPANS | GATE_MARKERS | GATE_MEMORY);
    return thread_log_get();
}

START_TEST(numbered_names_take_no_room_in_records)
{
    struct thread_log *log = record_here();
    int keys[3];
    struct record_memory state = {.device_index = -1};
    /* a text, a number, and a text again: neighbours must not overwrite each other */
    span_open(log, &keys[0], CAT_CPU_OP, "a text", 6);
    struct open_span *span = span_open(log, &keys[1], CAT_CPU_OP, NULL, number("numbered"));
    ck_assert_uint_eq(span_name(log, span).len, 8);
    ck_assert_mem_eq(span_name(log, span).at, "numbered", 8);
    span_open(log, &keys[2], CAT_CPU_OP, "a third", 7);
    emit_memory(log, 0x1000, 64, &state, NULL);
    emit_instant(log, CAT_USER_ANNOTATION, 0, NULL, number("now"), DATA_ARGS, "args", 4, NULL);
    span_close(log, &keys[2]);
    emit_memory(log, 0x2000, 64, &state, NULL);
    emit_graph_node(log, 7, 0, true);
    span_close(log, &keys[1]);
    span_close(log, &keys[0]);
    assert_named(next_record(log),
                 "a text"); /* the memory record has the outermost operator's name */
    const struct record *r = next_record(log);
    assert_named(r, "now");
    ck_assert_uint_eq(r->slots, 2);
    ck_assert_mem_eq(record_data(r), "args", 4);
    assert_named(next_record(log), "a third");
    assert_named(next_record(log), "a text");
    r = next_record(log);
    ck_assert_int_eq(r->kind, REC_NODE);
    assert_named(r, "numbered");
    r = next_record(log);
    ck_assert_uint_eq(r->slots, 1);
    assert_named(r, "numbered");
    assert_named(next_record(log), "a text");
}
END_TEST

START_TEST(keeps_extras_and_data_of_numbered_spans)
{
    struct thread_log *log = record_here();
    int key;
    struct open_span *span = span_open(log, &key, CAT_CPU_OP, NULL, number("aten::mm"));
    memcpy(span_data_room(log, span, 3), "abc", 3);
    span_data_done(log, span, DATA_ARGS, 3);
    span_set_flops(log, span, 11, 22, 33);
    span_close(log, &key);
    const struct record *r = next_record(log);
    assert_named(r, "aten::mm");
    ck_assert_mem_eq(record_data(r), "abc", 3);
    ck_assert_uint_eq(record_extra(r, EXTRA_FLOPS, 0), 11);
    ck_assert_uint_eq(record_extra(r, EXTRA_BYTES, 0), 22);
    ck_assert_uint_eq(record_extra(r, EXTRA_DTYPE, 0), 33);
    ck_assert_uint_eq(r->slots, 2);
}
END_TEST

/* When spans cross, one of them moves down the stack of open spans. */
START_TEST(moved_span_keeps_its_number)
{
    struct thread_log *log = record_here();
    int keys[3];
    span_open(log, &keys[0], CAT_USER_ANNOTATION, "outer", 5);
    span_add_flags(span_open(log, &keys[1], CAT_USER_ANNOTATION, NULL, number("moves")), REC_LOOSE);
    span_add_flags(span_open(log, &keys[2], CAT_USER_ANNOTATION, "moves, too", 10), REC_LOOSE);
    span_close(log, &keys[0]);
    struct open_copy copy;
    ck_assert(open_copy_take(log, 0, &copy));
    ck_assert_uint_eq(open_copy_name(&copy).len, 5);
    ck_assert_mem_eq(open_copy_name(&copy).at, "moves", 5);
    ck_assert(open_copy_take(log, 1, &copy));
    ck_assert_mem_eq(open_copy_name(&copy).at, "moves, too", 10);
    span_close(log, &keys[2]);
    span_close(log, &keys[1]);
    assert_named(next_record(log), "outer");
    assert_named(next_record(log), "moves, too");
    assert_named(next_record(log), "moves");
}
END_TEST

START_TEST(files_show_the_text_of_a_number)
{
    session_start(ACTION_SKIP,
                  true); /* step 0 is held and then discarded, which must not disturb later names */
    session_step(ACTION_WARMUP);
    struct thread_log *log = thread_log_get();
    emit_instant(log, CAT_USER_ANNOTATION, REC_MARKER, NULL, number("held"), DATA_NONE, NULL, 0,
                 NULL);
    session_sleep(30);
    session_step(ACTION_ACTIVE_AND_SAVE);
    span_open(log, &barrier, CAT_CPU_OP, NULL, number("left \"open\""));
    span_open(log, log, CAT_CPU_OP, NULL, number("na\303\257ve"));
    span_close(log, log);
    session_sleep(30);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'i', "held"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "na\303\257ve"), 1);
    ck_assert_ptr_nonnull(
        strstr(trace_event(&t, 'X', "left \\\"open\\\""), "\"finished\": \"false\""));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

Suite *suite_numbered(void)
{
    Suite *suite = suite_create("numbered");
    TCase *table = tcase_create("table"), *use = tcase_create("use"),
          *files = tcase_create("files");
    tcase_add_test(table, gives_each_name_one_number);
    tcase_add_test(table, long_name_stays_in_its_record);
    tcase_add_test(table, long_names_leave_room_for_operators);
    tcase_add_test(table, caches_the_number_of_a_name);
    tcase_add_loop_test(table, names_beyond_the_limit_get_no_number, 0, 2);
    tcase_add_test(table, threads_get_the_same_numbers);
    suite_add_tcase(suite, table);
    tcase_add_test(use, numbered_names_take_no_room_in_records);
    tcase_add_test(use, keeps_extras_and_data_of_numbered_spans);
    tcase_add_test(use, moved_span_keeps_its_number);
    suite_add_tcase(suite, use);
    tcase_add_checked_fixture(files, session_setup, session_teardown);
    tcase_add_test(files, files_show_the_text_of_a_number);
    suite_add_tcase(suite, files);
    return suite;
}
