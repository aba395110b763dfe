/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/flows.h: the forward operator at which an arrow starts, per window, and
 * the effect of collisions. */
#include "writer/sums/flows.h"

#include <check.h>
#include <stdlib.h>

static struct flows *flows;

static void setup(void)
{
    flows = calloc(1, sizeof *flows);
    ck_assert_ptr_nonnull(flows);
}

static void teardown(void)
{
    free(flows);
}

static void forward(uint64_t window, uint64_t thread, int64_t sequence, int64_t start)
{
    struct json_place at = {1, (uint32_t)thread + 1000, start, start + 5};
    flows_forward(flows, window, thread, sequence, &at);
}

/* Start of the operator that is found, or -1. */
static int64_t found(uint64_t window, uint64_t thread, int64_t sequence)
{
    const struct json_place *at = flows_find(flows, window, thread, sequence);
    if (!at)
        return -1;
    ck_assert_uint_eq(at->tid, thread + 1000);
    ck_assert_int_eq(at->end_ns, at->start_ns + 5);
    return at->start_ns;
}

START_TEST(finds_the_operator_that_starts_last)
{
    ck_assert_int_eq(found(1, 1, 7), -1);
    forward(1, 1, 7, 100);
    ck_assert_int_eq(found(1, 1, 7), 100);
    /* records come in the order of their ends, so the outer operator comes later */
    forward(1, 1, 7, 50);
    ck_assert_int_eq(found(1, 1, 7), 100);
    forward(1, 1, 7, 100);
    ck_assert_int_eq(found(1, 1, 7), 100);
    forward(1, 1, 7, 101);
    ck_assert_int_eq(found(1, 1, 7), 101);
}
END_TEST

START_TEST(match_needs_window_thread_and_sequence)
{
    forward(2, 3, 0, 10);
    ck_assert_int_eq(found(2, 3, 0), 10);
    ck_assert_int_eq(found(1, 3, 0), -1);
    ck_assert_int_eq(found(3, 3, 0), -1);
    ck_assert_int_eq(found(2, 2, 0), -1);
    ck_assert_int_eq(found(2, 3, 1), -1);
    ck_assert_int_eq(found(2, 3, FLOWS_SLOTS), -1);
}
END_TEST

START_TEST(later_window_replaces_the_operator)
{
    forward(1, 1, 7, 100);
    forward(2, 1, 7, 20); /* each file has its own time base */
    ck_assert_int_eq(found(2, 1, 7), 20);
    ck_assert_int_eq(found(1, 1, 7), -1);
}
END_TEST

START_TEST(newest_operator_wins_a_collision)
{
    forward(1, 1, 7, 100);
    forward(1, 1, 7 + FLOWS_SLOTS, 50);
    ck_assert_int_eq(found(1, 1, 7), -1); /* no arrow is better than a wrong one */
    ck_assert_int_eq(found(1, 1, 7 + FLOWS_SLOTS), 50);
}
END_TEST

START_TEST(consecutive_numbers_do_not_collide)
{
    for (unsigned thread = 1; thread <= 4; thread++)
        for (unsigned i = 0; i < 5000; i++)
            forward(1, thread, 100000 + i, thread * 10000 + i);
    unsigned missing = 0;
    for (unsigned thread = 1; thread <= 4; thread++)
        for (unsigned i = 0; i < 5000; i++)
            missing += found(1, thread, 100000 + i) != thread * 10000 + i;
    ck_assert_uint_eq(missing, 0);
}
END_TEST

static void wait_for(struct buf *waiting, uint64_t id, uint64_t start, int64_t sequence)
{
    struct flow_end end = {id, 1, start, sequence, {1, 2000, 1000, 1010}};
    buf_put(waiting, &end, sizeof end);
}

static unsigned arrows(const struct buf *b)
{
    unsigned n = 0;
    for (size_t at = 0; at + 11 < b->len; at++)
        n += memcmp(b->data + at, "\"ph\": \"f\"", 9) == 0;
    return n;
}

/* The autograd thread's ring may be drained before the ring of the forward thread. */
START_TEST(arrow_ends_wait_for_other_threads)
{
    struct buf waiting = {0}, body = {0};
    wait_for(&waiting, 11, 500, 7);
    wait_for(&waiting, 12, 700, 8);
    wait_for(&waiting, 13, 600, 9);
    flows_settle(flows, 1, &waiting, 400, &body); /* every record before 400 was read */
    ck_assert_uint_eq(body.len, 0);
    forward(1, 1, 7, 100);
    forward(1, 1, 8, 110);
    flows_settle(flows, 1, &waiting, 650, &body);
    ck_assert_uint_eq(arrows(&body), 1); /* arrow 13 has no forward operator */
    forward(1, 1, 8, 120);
    flows_settle(flows, 1, &waiting, UINT64_MAX, &body);
    ck_assert_uint_eq(arrows(&body), 2);
    ck_assert_uint_eq(waiting.len, 0);
    buf_free(&waiting);
    buf_free(&body);
}
END_TEST

Suite *suite_flows(void)
{
    Suite *suite = suite_create("flows");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, finds_the_operator_that_starts_last);
    tcase_add_test(all, arrow_ends_wait_for_other_threads);
    tcase_add_test(all, match_needs_window_thread_and_sequence);
    tcase_add_test(all, later_window_replaces_the_operator);
    tcase_add_test(all, newest_operator_wins_a_collision);
    tcase_add_test(all, consecutive_numbers_do_not_collide);
    suite_add_tcase(suite, all);
    return suite;
}
