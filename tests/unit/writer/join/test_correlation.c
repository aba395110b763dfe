/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the tables of the join: writer/join/correlation.h, writer/join/nodes.h and
 * writer/join/events.h. */
#include "writer/join/correlation.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "writer/join/events.h"
#include "writer/base/kept_names.h"
#include "writer/join/nodes.h"

START_TEST(ids_continue_after_the_wrap)
{
    ck_assert_uint_eq(correlation_extend(5), 5);
    ck_assert_uint_eq(correlation_extend(0x7fffffff), 0x7fffffff);
    ck_assert_uint_eq(correlation_extend(UINT32_MAX - 2), UINT32_MAX - 2);
    ck_assert_uint_eq(correlation_extend(3), ((uint64_t)1 << 32) + 3);
    ck_assert_uint_eq(correlation_extend(UINT32_MAX), UINT32_MAX); /* an old id that arrives late */
    ck_assert_uint_eq(correlation_extend(4), ((uint64_t)1 << 32) + 4);
}
END_TEST

/* Between windows cprof sees no ids, and the program may use half of all ids or more. */
START_TEST(ids_continue_after_a_pause)
{
    const uint64_t wraps = (uint64_t)3 << 32;
    for (uint32_t i = 0; i < 12; i++)
        correlation_extend(i % 3 * 0x55555555u + 3);
    uint64_t before = correlation_extend(UINT32_MAX), first;
    before = correlation_extend(100);
    ck_assert_uint_gt(before, wraps);
    correlation_pause();
    first = correlation_extend(0x90000000u); /* more than half of the ids later */
    ck_assert_uint_eq(first, before - 100 + 0x90000000u);
    ck_assert_uint_eq(correlation_extend(0x90000000u - 5), first - 5); /* out of order */
    ck_assert_uint_eq(correlation_extend(0x90000000u + 5), first + 5);
    correlation_pause();
    ck_assert_uint_gt(correlation_extend(0x90000000u + 4),
                      first + 5); /* a later call with the same id */
}
END_TEST

/* CUPTI dropped the kernels of many calls, so these calls wait while the window goes on. */
START_TEST(new_calls_take_the_place_of_old_waiting_calls)
{
    const uint64_t most = 1u << 20;
    for (uint64_t i = 1; i <= most + 1000; i++) {
        struct call *c = correlation_get(i, true);
        ck_assert_msg(c != NULL, "call %d has no place", (int)i);
        c->state = CALL_WRITTEN;
        c->effect = EFFECT_KERNEL;
        c->done = i > 1000;
    }
}
END_TEST

START_TEST(waiting_calls_keep_their_place)
{
    for (uint64_t i = 1; i <= 100000; i++) {
        struct call *c = correlation_get(i, true);
        ck_assert_ptr_nonnull(c);
        ck_assert_uint_eq(c->state, CALL_FREE);
        c->state = CALL_WRITTEN;
        c->external = i * 7;
        c->done = i % 100 != 0; /* one in a hundred waits */
    }
    for (uint64_t i = 100; i <= 100000; i += 100) {
        struct call *c = correlation_get(i, false);
        ck_assert_msg(c && c->external == i * 7, "call %d is gone", (int)i);
    }
    ck_assert_ptr_nonnull(correlation_get(99999, false));
    ck_assert_ptr_null(correlation_get(100001, false));
}
END_TEST

static unsigned given;

static void give(struct call *c, const struct gpu_record *r, void *arg)
{
    (void)c, (void)arg;
    ck_assert_uint_eq(r->correlation, given++);
}

START_TEST(releases_held_records_in_order)
{
    struct call *c = correlation_get(1, true);
    c->state = CALL_UNSEEN;
    for (uint32_t i = 0; i < 200; i++)
        ck_assert(correlation_hold(c, &(struct gpu_record){.correlation = i}));
    ck_assert_uint_eq(correlation_held(), 200);
    correlation_release(c, give, NULL);
    ck_assert_uint_eq(given, 200);
    ck_assert_uint_eq(correlation_held(), 0);
    ck_assert(correlation_hold(c, &(struct gpu_record){.correlation = 1}));
    ck_assert_uint_eq(correlation_drop(c), 1);
    ck_assert_uint_eq(correlation_held(), 0);
}
END_TEST

/* The record of a graph's launch may arrive after those of its nodes. A walk along the list for
 * each node would take half an hour. */
START_TEST(holds_300000_nodes_of_a_graph)
{
    struct call *c = correlation_get(1, true);
    c->state = CALL_UNSEEN;
    for (uint32_t i = 0; i < 300000; i++)
        ck_assert(correlation_hold(c, &(struct gpu_record){.correlation = i}));
    ck_assert_uint_eq(calls_oldest(c)->correlation, 0);
    given = 0;
    correlation_release(c, give, NULL);
    ck_assert_uint_eq(given, 300000);
    ck_assert_ptr_null(calls_oldest(c));
}
END_TEST

START_TEST(held_records_are_bounded)
{
    struct call *c = correlation_get(1, true);
    unsigned n = 0;
    c->state = CALL_UNSEEN;
    struct gpu_record r = {0};
    for (uint64_t id = 1; n < (1u << 22) && correlation_hold(c, &r); n++)
        if (n % 16 == 15) {
            c = correlation_get(++id, true);
            ck_assert_ptr_nonnull(c);
            c->state = CALL_UNSEEN;
        }
    ck_assert_uint_gt(n, 100000);
    ck_assert_uint_lt(n, 1u << 22);
}
END_TEST

START_TEST(copies_of_a_node_have_its_maker)
{
    struct node_maker maker = {.span = 12, .name = "op", .name_len = 2};
    nodes_add(1, 0, &maker);
    nodes_add(2, 1, &(struct node_maker){0});
    ck_assert_ptr_nonnull(nodes_find(2));
    ck_assert_uint_eq(nodes_find(2)->span, 12);
    ck_assert_ptr_null(nodes_find(3));
    nodes_add(4, 3, &maker); /* a copy of an unknown node */
    ck_assert_ptr_null(nodes_find(4));
    for (uint64_t i = 10; i < 20000; i++) {
        maker.span = i;
        nodes_add(i << 32 | i, 0, &maker);
    }
    for (uint64_t i = 10; i < 20000; i++)
        if (!nodes_find(i << 32 | i) || nodes_find(i << 32 | i)->span != i)
            ck_abort_msg("node %d is gone", (int)i);
}
END_TEST

/* A program that captures its graphs again in each step makes nodes without end. The table keeps
 * the newest graphs and those that are launched. */
START_TEST(keeps_the_newest_and_the_launched_graphs)
{
    enum { NODES = 5 << 20, LAUNCHED = 1000, EVERY = 100000 };
    struct record_node about = {.is_kernel = 1};
    uint64_t known = 0, gone = 0;
    for (uint64_t n = 1; n <= NODES; n++) {
        struct node_maker maker = {.span = n, .name = "op", .name_len = 2};
        about.outer = (struct record_counted){.span = n, .flops = n};
        about.inner = about.outer;
        nodes_count(&maker, &about);
        nodes_add(n << 32, 0, &maker);
        const struct node_maker *newest = nodes_find(n << 32);
        if (!newest || newest->span != n || nodes_flops(newest) != n)
            ck_abort_msg("node %d is not known", (int)n);
        for (uint64_t i = 1; n % EVERY == 0 && i <= LAUNCHED; i++) {
            const struct node_maker *m = nodes_find(i << 32);
            known += m && m->span == i && nodes_flops(m) == i;
        }
    }
    ck_assert_uint_eq(known, (uint64_t)(NODES / EVERY) * LAUNCHED);
    ck_assert_uint_eq(nodes_refused(), 0);
    for (uint64_t n = LAUNCHED + 1; n < NODES; n += 1000)
        gone += !nodes_find(n << 32);
    ck_assert_uint_gt(gone, (NODES - (2 << 20)) / 1000);
    ck_assert_uint_eq(nodes_refused(), gone);
    ck_assert_uint_eq(nodes_refused(), 0);
    ck_assert_ptr_null(nodes_find((uint64_t)(NODES + 1) << 32)); /* never made */
    ck_assert_uint_eq(nodes_refused(), 0);
}
END_TEST

/* A program gives each range another name. */
START_TEST(kept_names_are_bounded)
{
    static char name[16384];
    const char *first = names_keep("first", 5);
    uint64_t bytes = 0;
    memset(name, 'x', sizeof name);
    for (uint32_t i = 0; i < 20000; i++) {
        memcpy(name, &i, sizeof i);
        bytes += names_keep(name, sizeof name - i % 100) ? sizeof name : 0;
    }
    ck_assert_uint_gt(bytes, 32u << 20);
    ck_assert_uint_lt(bytes, 80u << 20);
    ck_assert_ptr_eq(names_keep("first", 5), first);
    ck_assert_uint_gt(names_refused(), 10000);
    ck_assert_uint_eq(names_refused(), 0);
}
END_TEST

START_TEST(finds_a_known_name_when_the_table_is_full)
{
    char name[16];
    const char *first = names_keep("cudaLaunchKernel", 16);
    for (uint32_t i = 0; i < 1100000; i++)
        names_keep(name, (uint32_t)snprintf(name, sizeof name, "step %u", i));
    ck_assert_uint_gt(names_refused(), 0);
    ck_assert_ptr_eq(names_keep("cudaLaunchKernel", 16), first);
}
END_TEST

static void record_event(uint32_t event, uint32_t stream, uint64_t correlation, uint64_t sync)
{
    struct gpu_record r = {.kind = GPU_EVENT, .context = 1, .stream = stream};
    r.event.event = event;
    r.event.event_sync = sync;
    events_note(&r, correlation);
}

static int64_t waited_for(uint32_t event, uint64_t correlation, uint64_t sync)
{
    struct gpu_record r = {.kind = GPU_SYNC, .context = 1};
    r.sync.event = event;
    r.sync.event_sync = sync;
    struct json_wait wait;
    bool found = events_find(&r, correlation, &wait);
    ck_assert(found == (wait.correlation >= 0));
    return wait.correlation;
}

START_TEST(a_wait_finds_the_last_recording_before_it)
{
    ck_assert_int_eq(waited_for(1, 100, 0), -1);
    record_event(1, 7, 10, 0);
    record_event(1, 8, 20, 0);
    record_event(1, 9, 30, 0);
    ck_assert_int_eq(waited_for(1, 15, 0), 10);
    ck_assert_int_eq(waited_for(1, 25, 0), 20);
    ck_assert_int_eq(waited_for(1, 31, 0), 30);
    ck_assert_int_eq(waited_for(1, 5, 0), -1);
    ck_assert_int_eq(waited_for(GPU_NONE, 100, 0), -1);
    record_event(2, 7, 40, 500);
    record_event(2, 7, 50, 501);
    ck_assert_int_eq(waited_for(2, 60, 500), 40); /* CUPTI identifies the recording */
    ck_assert_int_eq(waited_for(2, 60, 502), -1);
    for (uint32_t i = 100; i < 200000; i++)
        record_event(i, 7, i, 0);
    ck_assert_int_eq(waited_for(199999, 1000000, 0), 199999);
}
END_TEST

START_TEST(a_wait_ignores_recordings_of_another_window)
{
    record_event(1, 7, 10, 0);
    record_event(2, 7, 11, 500);
    ck_assert_int_eq(waited_for(1, 100, 0), 10);
    events_pause(); /* the program may record the event again, unseen */
    ck_assert_int_eq(waited_for(1, 100, 0), -1);
    ck_assert_int_eq(waited_for(2, 100, 500), 11);
    record_event(1, 8, 101, 0);
    ck_assert_int_eq(waited_for(1, 110, 0), 101);
}
END_TEST

Suite *suite_correlation(void)
{
    Suite *s = suite_create("correlation");
    TCase *c = tcase_create("calls");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, ids_continue_after_the_wrap);
    tcase_add_test(c, ids_continue_after_a_pause);
    tcase_add_test(c, waiting_calls_keep_their_place);
    tcase_add_test(c, new_calls_take_the_place_of_old_waiting_calls);
    tcase_add_test(c, releases_held_records_in_order);
    tcase_add_test(c, holds_300000_nodes_of_a_graph);
    tcase_add_test(c, held_records_are_bounded);
    tcase_add_test(c, copies_of_a_node_have_its_maker);
    tcase_add_test(c, keeps_the_newest_and_the_launched_graphs);
    tcase_add_test(c, kept_names_are_bounded);
    tcase_add_test(c, finds_a_known_name_when_the_table_is_full);
    tcase_add_test(c, a_wait_finds_the_last_recording_before_it);
    tcase_add_test(c, a_wait_ignores_recordings_of_another_window);
    suite_add_tcase(s, c);
    return s;
}
