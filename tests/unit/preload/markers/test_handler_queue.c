/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/markers/handler_queue.h with the real cprof thread as its writer. Events that
 * fit are never lost, and others are counted. Rare events find room after any number of marks.
 * `close` always arrives, and durations have both ends or none. */
#include "preload/markers/handler_queue.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/markers/handlers.h"
#include "preload/core/life.h"
#include "tests/support/capture.h"
#include "tests/support/session.h"

/* Kinds of messages, as in handler_queue.c and the Python module. */
enum { INIT = 1, DURATION, INSTANT, STEP = 7, OPEN = 9, SHUT, LOST, CLOSE, KINDS };

#define EVENT_AT (4 + 1 + 88 + 8) /* bytes before is_start: length, kind, time, wall clock */

static struct {
    unsigned n[KINDS];
    unsigned starts, unbalanced;
    uint64_t lost; /* sum of the LOST messages */
    bool is_open;
} seen;

static void setup(void)
{
    memset(&seen, 0, sizeof seen);
    session_setup();
    atomic_store(&cprof_life, LIFE_AWAKE);
}

static void count_message(const uint8_t *message)
{
    uint8_t kind = message[4];
    ck_assert_uint_lt(kind, KINDS);
    seen.n[kind]++;
    if (kind == DURATION) {
        bool start = message[EVENT_AT];
        seen.unbalanced += start == seen.is_open;
        seen.is_open = start;
        seen.starts += start;
    }
    if (kind == LOST) {
        uint64_t n;
        memcpy(&n, message + 5, sizeof n);
        seen.lost += n;
    }
}

/* Reads once and returns read()'s result. */
static int64_t read_some(struct cprof_trace_queue *q, size_t room, int timeout_ms)
{
    static uint8_t buf[1u << 16];
    ck_assert_uint_le(room, sizeof buf);
    int64_t n = cprof_trace_queue_read(q, buf, room, timeout_ms);
    for (int64_t at = 0; at < n;) {
        uint32_t len;
        memcpy(&len, buf + at, sizeof len);
        ck_assert_uint_ge(len, 5);
        count_message(buf + at);
        at += len;
        ck_assert_int_le(at, n);
    }
    return n;
}

/* Makes the queue before the first step. A queue made later may miss the opening of the window. */
static struct cprof_trace_queue *queue_from_the_start(void)
{
    session_prepare();
    struct cprof_trace_queue *q = cprof_trace_queue_for("q", 1, ~0u);
    ck_assert_ptr_nonnull(q);
    session_begin(ACTION_ACTIVE, false);
    return q;
}

static struct cprof_trace_queue *new_queue(void)
{
    struct cprof_trace_queue *q = cprof_trace_queue_for("q", 1, ~0u);
    ck_assert_ptr_nonnull(q);
    session_tell();
    return q;
}

static void mark(const char *name)
{
    span_add_flags(session_open(name), REC_MARKER);
    session_close(name);
}

START_TEST(delivers_all_events_that_fit)
{
    session_start(ACTION_ACTIVE, false);
    struct cprof_trace_queue *q = new_queue();
    unsigned total = 0;
    for (int round = 0; round < 40; round++) { /* several times around the ring */
        for (int i = 0; i < 50; i++)
            mark(i % 2 ? "short" : "a name that is somewhat longer than the other");
        total += 50;
        session_step(ACTION_ACTIVE);
        while (seen.starts < total || seen.is_open)
            ck_assert_int_ge(read_some(q, _i ? 400 : 1u << 16, 1000), 0);
    }
    session_end();
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    ck_assert_int_eq(read_some(q, 1u << 16, 0), -1);
    ck_assert_uint_eq(seen.n[DURATION], 4000);
    ck_assert_uint_eq(seen.unbalanced, 0);
    ck_assert_uint_eq(seen.n[INIT], 1);
    ck_assert_uint_eq(seen.n[STEP], 40);
    ck_assert_uint_eq(seen.n[CLOSE], 1);
    ck_assert_uint_eq(cprof_trace_queue_lost(q), 0);
}
END_TEST

START_TEST(counts_events_that_do_not_fit)
{
    session_start(ACTION_ACTIVE, false);
    struct cprof_trace_queue *q = new_queue();
    session_sleep(50);
    for (int i = 0; i < 5000; i++)
        mark("mark");
    session_step(ACTION_ACTIVE);
    session_sleep(100);
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    mark("mark");
    session_step(ACTION_SKIP);
    session_end();
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    ck_assert_uint_gt(seen.starts, 100);
    ck_assert_uint_eq(seen.unbalanced, 0);
    ck_assert(!seen.is_open);
    ck_assert_uint_gt(seen.lost, 5000);
    ck_assert_uint_eq(seen.lost, cprof_trace_queue_lost(q));
    ck_assert_uint_eq(seen.n[DURATION] + seen.n[STEP] + seen.lost, 2 * 5001 + 2);
    ck_assert_uint_eq(seen.n[CLOSE], 1);
}
END_TEST

START_TEST(marks_leave_room_for_steps_and_windows)
{
    struct cprof_trace_queue *q = queue_from_the_start();
    session_sleep(50);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 2000; i++)
            mark("mark");
        session_step(step < 2 ? ACTION_ACTIVE : ACTION_SKIP);
    }
    session_end();
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    ck_assert_uint_gt(seen.lost, 6000);
    ck_assert_uint_eq(seen.lost, cprof_trace_queue_lost(q));
    ck_assert_uint_eq(seen.n[DURATION] + seen.lost, 2 * 6000);
    ck_assert_uint_eq(seen.n[STEP], 3);
    ck_assert_uint_eq(seen.n[OPEN], 1);
    ck_assert_uint_eq(seen.n[SHUT], 1);
}
END_TEST

START_TEST(steps_leave_room_for_windows)
{
    struct cprof_trace_queue *q = queue_from_the_start();
    session_sleep(50);
    for (int step = 0; step < 2000; step++)
        session_step(step < 1999 ? ACTION_ACTIVE : ACTION_SKIP);
    session_end();
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    ck_assert_uint_gt(seen.lost, 0);
    ck_assert_uint_eq(seen.n[STEP] + seen.lost, 2000);
    ck_assert_uint_eq(seen.n[SHUT], 1);
}
END_TEST

START_TEST(unwanted_events_take_no_room)
{
    session_prepare();
    struct cprof_trace_queue *q = cprof_trace_queue_for("q", 1, 1u << SHUT);
    ck_assert_ptr_nonnull(q);
    session_begin(ACTION_ACTIVE, false);
    for (int i = 0; i < 5000; i++)
        mark("mark");
    session_step(ACTION_SKIP);
    session_end();
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    ck_assert_uint_eq(cprof_trace_queue_lost(q), 0);
    ck_assert_uint_eq(seen.n[DURATION] + seen.n[STEP] + seen.n[OPEN] + seen.n[LOST], 0);
    ck_assert_uint_eq(seen.n[INIT], 1);
    ck_assert_uint_eq(seen.n[SHUT], 1);
    ck_assert_uint_eq(seen.n[CLOSE], 1);
}
END_TEST

START_TEST(delivers_close_to_a_full_queue)
{
    session_start(ACTION_ACTIVE, false);
    struct cprof_trace_queue *q = new_queue();
    session_sleep(50);
    for (int i = 0; i < 5000; i++)
        mark("mark");
    session_end();
    while (read_some(q, 1u << 16, 0) > 0)
        ;
    ck_assert_uint_eq(seen.n[CLOSE], 1);
    ck_assert_uint_eq(seen.lost, cprof_trace_queue_lost(q));
}
END_TEST

START_TEST(counts_no_losses_after_leave)
{
    session_start(ACTION_ACTIVE, false);
    struct cprof_trace_queue *q = new_queue();
    cprof_trace_queue_leave(q);
    for (int i = 0; i < 5000; i++)
        mark("mark");
    session_end();
    ck_assert_uint_eq(cprof_trace_queue_lost(q), 0);
}
END_TEST

START_TEST(drops_messages_larger_than_the_buffer)
{
    static char name[2000];
    memset(name, 'n', sizeof name - 1);
    session_start(ACTION_ACTIVE, false);
    struct cprof_trace_queue *q = new_queue();
    session_sleep(50);
    mark(name);
    mark("short");
    session_end();
    while (read_some(q, 500, 0) > 0)
        ;
    ck_assert_uint_eq(seen.starts, 1);
    ck_assert_uint_eq(seen.unbalanced, 0);
    ck_assert_uint_eq(cprof_trace_queue_lost(q), 2);
}
END_TEST

START_TEST(read_returns_after_its_timeout)
{
    session_start(ACTION_ACTIVE, false);
    struct cprof_trace_queue *q = new_queue();
    while (read_some(q, 1u << 16, 100) > 0)
        ;
    uint64_t before = clock_monotonic_ns();
    ck_assert_int_eq(read_some(q, 1u << 16, 50), 0);
    ck_assert_uint_ge(clock_monotonic_ns() - before, 49000000);
    atomic_store(&cprof_life, LIFE_OVER);
    ck_assert_ptr_null(cprof_trace_queue_for("too late", 1, ~0u));
    session_end();
}
END_TEST

Suite *suite_handler_queue(void)
{
    Suite *s = suite_create("handler_queue");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_add_loop_test(c, delivers_all_events_that_fit, 0, 2);
    tcase_add_test(c, counts_events_that_do_not_fit);
    tcase_add_test(c, marks_leave_room_for_steps_and_windows);
    tcase_add_test(c, steps_leave_room_for_windows);
    tcase_add_test(c, unwanted_events_take_no_room);
    tcase_add_test(c, delivers_close_to_a_full_queue);
    tcase_add_test(c, counts_no_losses_after_leave);
    tcase_add_test(c, drops_messages_larger_than_the_buffer);
    tcase_add_test(c, read_returns_after_its_timeout);
    suite_add_tcase(s, c);
    return s;
}
