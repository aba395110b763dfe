/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/timeline.h and writer/join/ranges.h: which span was innermost at a time,
 * computed from spans in the order of their ends. */
#include "writer/join/timeline.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/records.h"
#include "writer/base/kept_names.h"
#include "writer/join/ranges.h"
#include "writer/writer.h"

#define TID 4000000u /* no thread of this process has it */

static struct timeline *t;

static void setup(void)
{
    t = timeline_of(TID);
    ck_assert_ptr_nonnull(t);
}

static struct note *add(uint64_t id, uint64_t parent, uint64_t start, uint64_t end)
{
    struct record *r = record_new(REC_SPAN, CAT_CPU_OP, "span", DATA_NONE, NULL, 0);
    r->id = id;
    r->parent = parent;
    r->start = start;
    r->end = end;
    struct note *n = timeline_add(t, r);
    free(r);
    return n;
}

static uint64_t at(uint64_t ticks)
{
    struct moment m;
    if (!timeline_at(t, ticks, &m))
        return 0;
    return m.note ? m.note->id : m.open.id;
}

/* 1: 100..900 around 2: 200..300 (around 3: 220..240), 4: 400..500, 5: 500..600. */
static void nest(void)
{
    add(3, 2, 220, 240);
    add(2, 1, 200, 300);
    add(4, 1, 400, 500);
    add(5, 1, 500, 600);
    add(1, 0, 100, 900);
}

START_TEST(finds_the_innermost_span)
{
    nest();
    const uint64_t wanted[][2] = {{99, 0},  {100, 1}, {199, 1}, {200, 2}, {219, 2}, {220, 3},
                                  {239, 3}, {240, 2}, {299, 2}, {300, 1}, {399, 1}, {450, 4},
                                  {499, 4}, {500, 5}, {599, 5}, {600, 1}, {899, 1}, {900, 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (at(wanted[i][0]) != wanted[i][1])
            ck_abort_msg("at %d: %d, not %d", (int)wanted[i][0], (int)at(wanted[i][0]),
                         (int)wanted[i][1]);
}
END_TEST

START_TEST(knows_the_edges_around_a_time)
{
    nest();
    struct moment m;
    ck_assert(timeline_at(t, 350, &m));
    ck_assert_uint_eq(m.before, 300);
    ck_assert_uint_eq(m.after, 400);
    ck_assert(!timeline_at(t, 1000, &m));
    ck_assert_uint_eq(m.before, 900);
    ck_assert_uint_eq(m.after, UINT64_MAX);
    ck_assert(!timeline_at(t, 50, &m));
    ck_assert_uint_eq(m.before, 0);
}
END_TEST

START_TEST(stops_at_a_lost_parent)
{
    add(7, 6, 100, 200); /* 6 is neither known nor open */
    ck_assert_uint_eq(at(50), 0);
    ck_assert_uint_eq(at(150), 7);
}
END_TEST

START_TEST(forgets_the_oldest_spans)
{
    for (uint64_t i = 1; i <= TIMELINE_NOTES + 1000; i++) {
        ck_assert_int_eq(timeline_oldest(t) != NULL, i > TIMELINE_NOTES);
        add(i, 0, i * 10, i * 10 + 5);
    }
    ck_assert_uint_eq(at(5003), 0); /* 500 was forgotten */
    ck_assert_uint_eq(at(20003), 2000);
    ck_assert_uint_eq(at((TIMELINE_NOTES + 1000) * 10 + 3), TIMELINE_NOTES + 1000);
    struct note open;
    ck_assert_ptr_null(timeline_span(t, 500, &open));
    ck_assert_ptr_nonnull(timeline_span(t, 2000, &open));
}
END_TEST

START_TEST(grows_for_waiting_calls)
{
    for (uint64_t i = 1; i <= 3 * TIMELINE_NOTES; i++) {
        ck_assert_ptr_null(timeline_oldest(t));
        add(i, 0, i * 10, i * 10 + 5)->state = NOTE_CALL;
    }
    for (uint64_t i = 1; i <= 3 * TIMELINE_NOTES; i += 1000)
        if (at(i * 10 + 3) != i)
            ck_abort_msg("%d is forgotten", (int)i);
    struct note open;
    ck_assert_ptr_nonnull(timeline_span(t, 1, &open));
}
END_TEST

/* All timelines together take an eighth of the address space that is left. New timelines get the
 * memory of forgotten timelines. */
START_TEST(takes_an_eighth_of_a_limited_address_space)
{
    enum { LEFT = 512 << 20 };
    if (!alloc_is_ours) {
        fprintf(
            stderr,
            "timeline: takes_an_eighth_of_a_limited_address_space is skipped under sanitizers and "
            "valgrind, whose memory is above any limit\n");
        return;
    }
    capture_start();
    struct rlimit limit = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = limit.rlim_max = limit.rlim_cur - writer_space_left() + LEFT;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    uint32_t n = 1;
    uint64_t room = TIMELINE_NOTES;
    while (n < 1000 && (t = timeline_of(TID + n))) {
        ck_assert_uint_le(t->room, room);
        room = t->room;
        n++;
    }
    ck_assert_uint_gt(n, 20);
    ck_assert_uint_ge(writer_space_left(), LEFT / 8 * 6);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "the address space is limited"), 1);
    t = timeline_of(TID + 1);
    for (uint64_t i = 1; i <= 2 * t->room; i++)
        add(i, 0, i * 10, i * 10 + 5);
    ck_assert_uint_eq(at(t->room * 10 + 3), 0);
    ck_assert_uint_eq(at(2 * t->room * 10 + 3), 2 * t->room);
    timeline_forget();
    ck_assert_ptr_nonnull(timeline_of(TID + n));
}
END_TEST

START_TEST(knows_up_to_when_spans_have_arrived)
{
    ck_assert(timeline_knows(t, 50)); /* no such thread: no more spans can arrive */
    add(1, 0, 100, 200);
    ck_assert(timeline_knows(t, 100));
}
END_TEST

START_TEST(finds_an_open_span_of_a_live_thread)
{
    ck_assert(thread_log_start(1u << 16));
    t = timeline_of((uint32_t)syscall(SYS_gettid));
    /* its first hooked call comes while CUPTI's records of its earlier calls are taken */
    ck_assert(timeline_knows(t, clock_ticks()));
    struct thread_log *log = thread_log_get();
    uint64_t before = clock_ticks();
    span_open(log, &before, CAT_USER_ANNOTATION, "outer", 5);
    uint64_t outer = span_top(log);
    uint64_t between = clock_ticks();
    span_open(log, &between, CAT_CUDA_RUNTIME, "cudaMalloc", 10);
    uint64_t during = clock_ticks();
    ck_assert_uint_eq(at(before), 0);
    ck_assert(timeline_knows(t, between));
    struct moment m;
    ck_assert(timeline_at(t, between, &m));
    ck_assert_uint_eq(m.open.id, outer);
    ck_assert(m.open.name && memcmp(m.open.name, "outer", 5) == 0);
    ck_assert(!timeline_knows(t, during)); /* the call has not returned yet */
    span_close(log, &between);
    ck_assert(!timeline_knows(t, during)); /* its record is in the ring */
    const struct record *r = ring_peek(&log->ring, ring_head(&log->ring));
    ck_assert_ptr_nonnull(r);
    timeline_add(t, r);
    ring_take(&log->ring, r);
    ck_assert(timeline_knows(t, during));
    ck_assert_uint_eq(at(during), outer + 1);
    ck_assert_uint_eq(at(clock_ticks()), outer);
    struct note open;
    struct note *found = timeline_span(t, outer, &open);
    ck_assert_ptr_eq(found, &open);
}
END_TEST

/* Finds a timeline without making one, unlike timeline_of(). */
static bool is_there(uint32_t tid)
{
    struct timeline *it = timeline_first();
    while (it && it->tid != tid)
        it = it->next;
    return it != NULL;
}

START_TEST(forgets_threads_that_have_ended)
{
    ck_assert(thread_log_start(1u << 16));
    ck_assert_ptr_nonnull(thread_log_get());
    uint32_t lives = (uint32_t)syscall(SYS_gettid);
    timeline_of(lives);
    timeline_of(TID + 1)->calls_waiting = 1;
    add(1, 0, 100, 200);
    timeline_sweep();
    timeline_of(TID + 2);
    ck_assert(is_there(TID));
    timeline_sweep();
    ck_assert(!is_there(TID));
    ck_assert(is_there(lives) && is_there(TID + 1) && is_there(TID + 2));
    timeline_of(TID + 2); /* makes the timeline */
    timeline_sweep();
    ck_assert(is_there(TID + 2));
    timeline_of(TID + 1)->calls_waiting = 0;
    for (int i = 0; i < 3; i++)
        timeline_sweep();
    ck_assert(is_there(lives) && !is_there(TID + 1) && !is_there(TID + 2));
}
END_TEST

START_TEST(finds_captures_by_time)
{
    ck_assert(!timeline_made_node(t, 0, 1000));
    for (uint64_t i = 0; i < TIMELINE_NODES + 10; i++)
        timeline_add_node(t, 1000 + i * 10);
    ck_assert(!timeline_made_node(t, 1000, 1005)); /* forgotten */
    ck_assert(timeline_made_node(t, 2000, 2000));
    ck_assert(timeline_made_node(t, 2005, 2010));
    ck_assert(!timeline_made_node(t, 2001, 2009));
    ck_assert(!timeline_made_node(t, UINT64_MAX - 1, UINT64_MAX));
}
END_TEST

static unsigned taken;

static void take(const struct range_extent *e, void *arg)
{
    (void)arg;
    taken++;
    if (e->stream == 7)
        ck_assert(e->start == 10 && e->end == 60);
    else
        ck_assert(e->start == 30 && e->end == 40);
}

START_TEST(ranges_extend_over_their_kernels)
{
    struct note *inner = add(2, 1, 20, 30), *outer = add(1, 0, 10, 40);
    inner->category = outer->category = CAT_USER_ANNOTATION;
    inner->name = outer->name = names_keep("range", 5);
    inner->name_len = outer->name_len = 5;
    struct note *op = add(3, 2, 22, 25);
    uint32_t range = ranges_of(t, op);
    ck_assert_uint_ne(range, RANGE_NONE);
    ck_assert_uint_eq(ranges_of(t, inner), range);
    ck_assert_uint_ne(ranges_of(t, outer), range);
    ranges_extend(range, 1, 0, 7, 10, 20);
    ranges_extend(range, 1, 0, 7, 50, 60);
    ranges_extend(range, 1, 0, 13, 30, 40);
    ranges_extend(range, 2, 0, 13, 30, 40);
    ranges_take(1, take, NULL);
    ck_assert_uint_eq(taken, 4); /* two ranges on two streams */
    ranges_take(1, take, NULL);
    ck_assert_uint_eq(taken, 4);
    ranges_take(2, take, NULL);
    ck_assert_uint_eq(taken, 6);
    ranges_extend(ranges_of(t, outer), 3, 0, 13, 30, 40);
    ranges_take(3, take, NULL);
    ck_assert_uint_eq(taken, 7);
}
END_TEST

START_TEST(keeps_each_name_once)
{
    const char *one = names_keep("name", 4);
    ck_assert_ptr_nonnull(one);
    char other[] = "name";
    ck_assert_ptr_eq(names_keep(other, 4), one);
    ck_assert_ptr_ne(names_keep("name", 3), one);
    ck_assert_ptr_nonnull(names_keep("", 0));
    for (unsigned i = 0; i < 5000; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "n%u", i);
        ck_assert_ptr_eq(names_keep(text, (uint32_t)n), names_keep(text, (uint32_t)n));
    }
    ck_assert_ptr_eq(names_keep("name", 4), one);
}
END_TEST

Suite *suite_timeline(void)
{
    Suite *s = suite_create("timeline");
    TCase *c = tcase_create("timeline");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, finds_the_innermost_span);
    tcase_add_test(c, knows_the_edges_around_a_time);
    tcase_add_test(c, stops_at_a_lost_parent);
    tcase_add_test(c, forgets_the_oldest_spans);
    tcase_add_test(c, grows_for_waiting_calls);
    tcase_add_test(c, takes_an_eighth_of_a_limited_address_space);
    tcase_add_test(c, knows_up_to_when_spans_have_arrived);
    tcase_add_test(c, finds_an_open_span_of_a_live_thread);
    tcase_add_test(c, forgets_threads_that_have_ended);
    tcase_add_test(c, finds_captures_by_time);
    tcase_add_test(c, ranges_extend_over_their_kernels);
    tcase_add_test(c, keeps_each_name_once);
    suite_add_tcase(s, c);
    return s;
}
