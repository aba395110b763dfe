/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/lanes.h: numbers and names of rows. No row may hold two events that
 * overlap, in any order of arrival and after old events were forgotten. */
#include "tests/fuzz/json_valid.h"
#include "tests/support/alloc.h"
#include "writer/record/gpu_record.h"
#include "writer/sums/intervals.h"
#include "writer/sums/lanes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct lanes *rows;
static struct buf out;
static uint32_t pid, tid;

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void start(void)
{
    rows = lanes_make();
    ck_assert_ptr_nonnull(rows);
}

static void stop(void)
{
    lanes_free(rows);
    buf_free(&out);
}

/* Places an event and returns its row. */
static uint32_t place(enum lane_kind kind, uint32_t owner, uint32_t id, int64_t from, int64_t to,
                      bool nest)
{
    lanes_place(rows, kind, owner, id, from, to, nest, "python3", &out, &pid, &tid);
    if (tid == 0) /* ck_assert() is too slow for a million calls */
        ck_abort_msg("thread id 0");
    return tid;
}

static uint32_t work(int64_t from, int64_t to)
{
    return place(LANE_WORK, 0, 7, from, to, false);
}

static uint32_t range(int64_t from, int64_t to)
{
    return place(LANE_ANNOTATION, 0, 7, from, to, true);
}

/* The buffer's text, terminated, valid until the next call. */
static const char *take_text(void)
{
    static char *text;
    free(text);
    ck_assert(!out.failed);
    ck_assert_msg(json_lines_valid(out.data, out.len), "%.*s", (int)out.len, out.data);
    text = calloc(1, out.len + 1);
    ck_assert_ptr_nonnull(text);
    if (out.len != 0)
        memcpy(text, out.data, out.len);
    buf_reset(&out);
    return text;
}

#define META(kind, p, t, args)                                                                     \
    "{\"ph\": \"M\", \"name\": \"" kind "\", \"pid\": " p ", \"tid\": " t                          \
    ", \"ts\": 0.000, \"args\": {" args "}},\n"

/* ---- numbers and names ----------------------------------------------------------------------- */

START_TEST(first_use_names_process_and_row)
{
    ck_assert_uint_eq(place(LANE_WORK, 2, 7, 10, 20, false), 7);
    ck_assert_uint_eq(pid, 2);
    ck_assert_str_eq(take_text(),
                     META("process_name", "2", "7", "\"name\": \"python3\"")
                         META("process_labels", "2", "7", "\"labels\": \"GPU 2\"")
                             META("process_sort_index", "2", "7", "\"sort_index\": 5000002")
                                 META("thread_name", "2", "7", "\"name\": \"stream 7\"")
                                     META("thread_sort_index", "2", "7", "\"sort_index\": 224"));
    place(LANE_WORK, 2, 7, 20, 30, false);
    ck_assert_str_eq(take_text(), "");
    ck_assert_uint_eq(place(LANE_WORK, 2, 20, 20, 30, false), 20);
    ck_assert_str_eq(take_text(), META("thread_name", "2", "20", "\"name\": \"stream 20\"")
                                      META("thread_sort_index", "2", "20", "\"sort_index\": 640"));
}
END_TEST

/* The name and sort index of the newest row. */
static int64_t check_row(uint32_t number, const char *name)
{
    char expected[128];
    const char *text = take_text();
    snprintf(expected, sizeof(expected),
             "\"tid\": %u, \"ts\": 0.000, \"args\": {\"name\": \"%s\"}}", number, name);
    ck_assert_msg(strstr(text, expected) != NULL, "%s not in %s", expected, text);
    const char *sort = strstr(text, "thread_sort_index");
    ck_assert_ptr_nonnull(sort);
    return strtoll(strstr(sort, "\"sort_index\": ") + 14, NULL, 10);
}

START_TEST(sorts_rows_of_a_stream_together)
{
    int64_t sort[8];
    work(10, 20);
    sort[0] = check_row(7, "stream 7");
    work(15, 25);
    sort[1] = check_row(tid, "stream 7 (overlap 1)");
    ck_assert_uint_ge(tid, 1000000000);
    range(10, 20);
    sort[2] = check_row(2000007, "ranges on stream 7");
    range(15, 25);
    sort[3] = check_row(tid, "ranges on stream 7 (overlap 1)");
    place(LANE_SYNC, 0, 7, 10, 20, false);
    sort[4] = check_row(1000007, "waits on stream 7");
    place(LANE_SYNC, 0, 7, 15, 25, false);
    sort[5] = check_row(tid, "waits on stream 7 (overlap 1)");
    place(LANE_WORK, 0, 8, 10, 20, false);
    sort[6] = check_row(8, "stream 8");
    place(LANE_SYNC, 0, GPU_NONE, 10, 20, false);
    sort[7] = check_row(tid, "waits");
    for (int i = 0; i < 7; i++)
        ck_assert_int_lt(sort[i], sort[i + 1]);
    ck_assert_int_le(sort[7], INT32_MAX);
    place(LANE_SYNC, 0, GPU_NONE, 10, 20, false);
    check_row(tid, "waits (overlap 1)");
}
END_TEST

START_TEST(extreme_ids_get_distinct_rows)
{
    static const uint32_t ids[] = {0, 1, 999999, 1000000, 1999999, 2000000, 1000000000, UINT32_MAX};
    uint32_t seen[64];
    unsigned n = 0;
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        for (int kind = LANE_WORK; kind <= LANE_ANNOTATION; kind++) {
            seen[n++] = place((enum lane_kind)kind, 0, ids[i], 5, 6, false);
            ck_assert_uint_eq(pid, 0);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < i; k++)
            ck_assert_uint_ne(seen[i], seen[k]);
    }
    ck_assert_ptr_nonnull(strstr(take_text(), "\"stream 0\""));
}
END_TEST

START_TEST(overhead_has_a_process_of_its_own)
{
    ck_assert_uint_eq(place(LANE_OVERHEAD, 4711, 4712, 10, 20, true), 4712);
    ck_assert_uint_gt(pid, 1u << 22);
    const char *text = take_text();
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"overhead\""));
    ck_assert_ptr_nonnull(strstr(text, "\"sort_index\": 16777226"));
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"thread 4712\""));
    uint32_t first = pid;
    place(LANE_OVERHEAD, 4711, 0, 10, 20, true);
    check_row(tid, "unknown thread");
    ck_assert_uint_eq(pid, first);
}
END_TEST

START_TEST(retries_names_that_did_not_fit)
{
    struct buf small = {.limit = 500};
    lanes_place(rows, LANE_WORK, 0, 7, 10, 20, false, "python3", &small, &pid, &tid);
    ck_assert(small.failed);
    ck_assert_uint_eq(small.len, 0);
    buf_free(&small);
    ck_assert_uint_eq(work(20, 30), 7);
    const char *text = take_text();
    ck_assert_ptr_nonnull(strstr(text, "process_name"));
    ck_assert_ptr_nonnull(strstr(text, "stream 7"));
    work(30, 40);
    ck_assert_str_eq(take_text(), "");
}
END_TEST

/* ---- overlaps -------------------------------------------------------------------------------- */

START_TEST(touching_events_share_a_row)
{
    ck_assert_uint_eq(work(10, 20), 7);
    ck_assert_uint_eq(work(30, 40), 7);
    ck_assert_uint_eq(work(20, 30), 7);
    ck_assert_uint_eq(work(0, 10), 7);
    ck_assert_uint_eq(work(40, 40), 7); /* an instant at the edge of a taken interval */
    ck_assert_uint_ne(work(25, 26), 7);
    ck_assert_uint_ne(work(25, 25), 7);
    ck_assert_uint_ne(work(0, 40), 7);
    ck_assert_uint_ne(work(39, 41), 7);
    ck_assert_uint_eq(work(40, 41), 7);
}
END_TEST

START_TEST(overlaps_use_the_fewest_rows)
{
    ck_assert_uint_eq(work(10, 20), 7);
    uint32_t first = work(15, 25);
    uint32_t second = work(18, 30);
    ck_assert_uint_ne(first, second);
    ck_assert_uint_eq(work(20, 25), 7);
    ck_assert_uint_eq(work(24, 26), second == first ? 0 : tid);
    ck_assert_uint_eq(work(25, 30), 7);
    ck_assert_uint_eq(work(26, 29), first);
}
END_TEST

START_TEST(nests_ranges_in_any_order)
{
    uint32_t row = range(10, 20);
    ck_assert_uint_eq(range(0, 100), row);
    ck_assert_uint_eq(range(30, 40), row);
    ck_assert_uint_eq(range(10, 40), row); /* around two ranges of the row */
    ck_assert_uint_eq(range(12, 14), row); /* inside the first of them */
    ck_assert_uint_eq(range(12, 14), row); /* the same range again */
    ck_assert_uint_eq(range(14, 20), row);
    ck_assert_uint_eq(range(40, 100), row);
    ck_assert_uint_eq(range(35, 35), row);
    ck_assert_uint_ne(range(13, 15), row);
    ck_assert_uint_ne(range(15, 35), row);
    ck_assert_uint_ne(range(5, 15), row);
    ck_assert_uint_ne(range(90, 110), row);
    ck_assert_uint_eq(range(100, 110), row);
    ck_assert_uint_eq(range(INT64_MIN, INT64_MAX), row);
}
END_TEST

START_TEST(limits_the_nesting_depth)
{
    uint32_t row = range(0, 1);
    int64_t deepest = 1;
    while (deepest < 1000 && range(-deepest, deepest + 1) == row)
        deepest++;
    ck_assert_int_eq(deepest, INTERVALS_DEPTH);
    row = place(LANE_ANNOTATION, 1, 1, -2000, 2000, true);
    int64_t n = 1;
    while (n < 1000 && place(LANE_ANNOTATION, 1, 1, -2000 + n, 2000 - n, true) == row)
        n++;
    ck_assert_int_eq(n, INTERVALS_DEPTH);
}
END_TEST

#define EVENTS 400

struct placed {
    int64_t from, to;
    uint32_t tid;
};

/* Whether two events may share a row. An instant that came first may lie inside a later event. */
static bool may_share_row(const struct placed *later, const struct placed *first, bool nest)
{
    bool apart = later->to <= first->from || first->to <= later->from;
    bool inside = (later->from <= first->from && first->to <= later->to) ||
                  (first->from <= later->from && later->to <= first->to);
    return apart || first->from == first->to || (nest && inside);
}

/* Places random events. The round determines their length and order. */
static void check_round(int round, bool nest)
{
    static struct placed events[EVENTS];
    int64_t span = 20 << (round % 10);
    for (int i = 0; i < EVENTS; i++) {
        struct placed *e = &events[i];
        int64_t length = (int64_t)(next_random() % (round % 3 == 0 ? 8 : 60));
        e->from = round % 4 == 0   ? i * 5
                  : round % 4 == 1 ? (EVENTS - i) * 5
                                   : (int64_t)(next_random() % (uint64_t)span);
        e->to = e->from + length;
        e->tid =
            place(nest ? LANE_ANNOTATION : LANE_WORK, (uint32_t)round, 7, e->from, e->to, nest);
        for (int k = 0; k < i; k++) {
            if (events[k].tid == e->tid && !may_share_row(e, &events[k], nest))
                ck_abort_msg("[%lld, %lld) and [%lld, %lld) on %u", (long long)e->from,
                             (long long)e->to, (long long)events[k].from, (long long)events[k].to,
                             e->tid);
        }
    }
}

/* LANES_OVERLAPS limits the rows, but short events over a long time never reach it. */
START_TEST(no_two_events_of_a_row_overlap)
{
    for (int round = 0; round < 60; round++) {
        if (round % 10 < 5 && round % 4 > 1)
            continue;
        check_round(round, false);
        check_round(round, true);
    }
}
END_TEST

/* A range fits on a row if and only if it crosses no range of the row. */
START_TEST(range_uses_a_row_that_it_fits)
{
    static struct placed events[2000];
    int n = 0;
    uint32_t row = range(0, 0);
    for (int i = 0; i < 2000; i++) {
        struct placed e = {.from = (int64_t)(next_random() % 3000)};
        e.to = e.from + 1 + (int64_t)(next_random() % (1u << next_random() % 11));
        bool fits = true;
        for (int k = 0; k < n; k++)
            fits = fits && may_share_row(&e, &events[k], true);
        ck_assert_int_eq(range(e.from, e.to) == row, fits);
        if (fits)
            events[n++] = e;
    }
    ck_assert_int_gt(n, 100);
}
END_TEST

START_TEST(interleaves_ordered_inputs_on_one_row)
{
    unsigned wrong = 0;
    for (int64_t i = 0; i < 60000; i++)
        wrong += work(20 * i, 20 * i + 8) != 7;
    for (int64_t i = 0; i < 60000; i++)
        wrong += work(20 * i + 10, 20 * i + 18) != 7;
    for (int64_t i = 59999; i >= 0; i--)
        wrong += work(20 * i + 18, 20 * i + 20) != 7;
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_ne(work(12345, 12346), 7);
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

START_TEST(times_of_forgotten_events_use_an_extra_row)
{
    unsigned wrong = 0;
    int64_t i = 0;
    for (; i <= INTERVALS_MOST; i++) {
        wrong += work(10 * i, 10 * i + 5) != 7;
        wrong += range(10 * i, 10 * i + 5) != 2000007;
    }
    ck_assert_uint_eq(wrong, 0);
    /* The time is free, but the rows have forgotten it. */
    uint32_t extra = work(7, 8);
    ck_assert_uint_ne(extra, 7);
    ck_assert_uint_eq(work(17, 18), extra);
    ck_assert_uint_ne(range(7, 8), 2000007);
    /* The newer half is remembered. */
    int64_t middle = i * 3 / 4;
    ck_assert_uint_eq(work(10 * middle + 5, 10 * middle + 10), 7);
    ck_assert_uint_ne(work(10 * middle + 4, 10 * middle + 5), 7);
    ck_assert_uint_eq(range(10 * middle + 1, 10 * middle + 2), 2000007);
    ck_assert_uint_ne(range(10 * middle + 4, 10 * middle + 6), 2000007);
    ck_assert_uint_eq(work(10 * i, 10 * i + 5), 7);
}
END_TEST

START_TEST(rows_share_one_memory_bound)
{
    unsigned wrong = 0;
    /* 12 rows of 100 000 events each exceed the budget. The rows then forget all events once; no
     * later event may overlap another. */
    for (uint32_t stream = 1; stream <= 12; stream++) {
        for (int64_t i = 0; i < 100000; i++)
            wrong += place(LANE_WORK, 0, stream, 10 * i, 10 * i + 5, false) != stream;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_ne(place(LANE_WORK, 0, 1, 999, 1001, false), 1);
    ck_assert_uint_eq(place(LANE_WORK, 0, 1, 1000000, 1000001, false), 1);
}
END_TEST

START_TEST(places_work_without_memory)
{
    work(10, 20);
    buf_reset(&out);
    if (alloc_is_ours) {
        alloc_fail_from(32);
        ck_assert_uint_eq(place(LANE_WORK, 0, 9, 10, 20, false), 9);
        place(LANE_WORK, 0, 0, 10, 20, false);
        for (int64_t i = 2; i < 100; i++)
            ck_assert_uint_eq(work(10 * i, 10 * i + 5), 7);
        alloc_fail_from(0);
        ck_assert_uint_eq(work(1000, 1005), 7);
        ck_assert_uint_ne(work(30, 40), 7);
        alloc_fail_from(32);
        ck_assert_ptr_null(lanes_make());
        alloc_fail_from(0);
    }
    lanes_free(NULL);
}
END_TEST

START_TEST(forgets_ranges_with_their_children)
{
    unsigned wrong = 0;
    for (int64_t i = 0; i < INTERVALS_MOST; i++) {
        wrong += range(10 * i, 10 * i + 5) != 2000007;
        if (i % 4 == 0) {
            wrong += range(10 * i + 1, 10 * i + 4) != 2000007;
            wrong += range(10 * i + 2, 10 * i + 3) != 2000007;
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_ne(range(7, 8), 2000007); /* the list is full: this call drops older ranges */
    int64_t last = 10 * (INTERVALS_MOST - 4);
    ck_assert_uint_ne(range(last + 2, last + 5), 2000007);
    ck_assert_uint_eq(range(last + 2, last + 4), 2000007);
}
END_TEST

START_TEST(places_ranges_without_memory)
{
    /* ck_assert() allocates, so none stands between alloc_fail_from() and the results. fail[] has
     * the least size that fails: of everything, of a list inside an event, of its intervals, of
     * the intervals of a list around events. */
    static const size_t fail[] = {1, 32, 100, 200};
    for (size_t i = 0; alloc_is_ours && i < sizeof(fail) / sizeof(*fail); i++) {
        uint32_t got[4] = {0};
        uint32_t stream = (uint32_t)(10 + i);
        uint32_t row = place(LANE_ANNOTATION, 0, stream, 0, 100, true);
        for (int64_t k = 10; k < 30; k++)
            place(LANE_ANNOTATION, 0, stream, 10 * k, 10 * k + 8, true);
        alloc_fail_from(fail[i]);
        got[0] = place(LANE_ANNOTATION, 0, stream, 100, 300, true);
        got[1] = place(LANE_ANNOTATION, 0, stream, 10, 20, true);
        got[2] = place(LANE_ANNOTATION, 0, stream, 400, 500, true);
        got[3] = place(LANE_ANNOTATION, 1, stream, 400, 500, true);
        alloc_fail_from(0);
        ck_assert_uint_ne(got[0], 0);
        ck_assert_uint_ne(got[1], 0);
        /* All ranges were forgotten, so later ranges fit again. */
        ck_assert_uint_eq(got[2], row);
        ck_assert_uint_eq(got[3], row);
    }
}
END_TEST

/* A graph may have more parallel branches than there are rows. An event without a free row must not
 * share a row with an overlapping event. */
START_TEST(refuses_overlaps_beyond_the_limit)
{
    unsigned twice = 0, placed = 0, wrong = 0;
    static bool used[2 * LANES_OVERLAPS];
    for (unsigned i = 0; i < 2 * LANES_OVERLAPS; i++) {
        bool fits = lanes_place(rows, LANE_WORK, 0, 7, 10, 20, false, "python3", &out, &pid, &tid);
        if (!fits)
            continue;
        uint32_t row = tid == 7 ? 0 : tid - 1000000000u + 1;
        ck_assert_uint_lt(row, LANES_OVERLAPS);
        twice += used[row];
        used[row] = true;
        placed++;
    }
    ck_assert_uint_eq(placed, LANES_OVERLAPS);
    ck_assert_uint_ge(placed, 1024);
    ck_assert_uint_eq(twice, 0);
    ck_assert_uint_eq(work(20, 30), 7);
    for (uint32_t id = 100; id < 70000; id++)
        wrong += place(LANE_WORK, 1, id, 10, 20, false) != id;
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* CPU time in ms to place events [from, to) of two streams, each in order. */
static double place_in_order(int64_t from, int64_t to)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int64_t i = from; i < to; i++)
        place(LANE_WORK, 0, 7 + (uint32_t)(i & 1), 10 * i, 10 * i + 8, false);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return 1e3 * (double)(b.tv_sec - a.tv_sec) + 1e-6 * (double)(b.tv_nsec - a.tv_nsec);
}

START_TEST(cost_of_ordered_events_does_not_grow)
{
    double first = place_in_order(0, 100000);
    place_in_order(100000, 900000);
    double last = place_in_order(900000, 1000000);
    ck_assert_double_lt(last, 4 * first + 1);
}
END_TEST

Suite *suite_lanes(void)
{
    Suite *suite = suite_create("lanes");
    TCase *names = tcase_create("names");
    tcase_add_checked_fixture(names, start, stop);
    tcase_add_test(names, first_use_names_process_and_row);
    tcase_add_test(names, sorts_rows_of_a_stream_together);
    tcase_add_test(names, extreme_ids_get_distinct_rows);
    tcase_add_test(names, overhead_has_a_process_of_its_own);
    tcase_add_test(names, retries_names_that_did_not_fit);
    suite_add_tcase(suite, names);
    TCase *overlaps = tcase_create("overlaps");
    tcase_add_checked_fixture(overlaps, start, stop);
    tcase_add_test(overlaps, touching_events_share_a_row);
    tcase_add_test(overlaps, overlaps_use_the_fewest_rows);
    tcase_add_test(overlaps, nests_ranges_in_any_order);
    tcase_add_test(overlaps, limits_the_nesting_depth);
    tcase_add_test(overlaps, no_two_events_of_a_row_overlap);
    tcase_add_test(overlaps, range_uses_a_row_that_it_fits);
    tcase_add_test(overlaps, interleaves_ordered_inputs_on_one_row);
    suite_add_tcase(suite, overlaps);
    TCase *bounds = tcase_create("bounds");
    tcase_add_checked_fixture(bounds, start, stop);
    tcase_add_test(bounds, times_of_forgotten_events_use_an_extra_row);
    tcase_add_test(bounds, rows_share_one_memory_bound);
    tcase_add_test(bounds, forgets_ranges_with_their_children);
    tcase_add_test(bounds, places_ranges_without_memory);
    tcase_add_test(bounds, places_work_without_memory);
    tcase_add_test(bounds, refuses_overlaps_beyond_the_limit);
    tcase_add_test(bounds, cost_of_ordered_events_does_not_grow);
    suite_add_tcase(suite, bounds);
    return suite;
}
