/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/attribution.h: which counted spans the table keeps while many threads
 * launch. */
#include "writer/join/attribution.h"

#include <check.h>
#include <stdlib.h>

#include "tests/support/records.h"
#include "writer/base/clock.h"
#include "writer/record/thread_log.h"

#define TID     4000000u /* no thread of this process has it */
#define FLOPS   1000u
#define THREADS 32u

static struct timeline *t;

static void setup(void)
{
    t = timeline_of(TID);
    ck_assert_ptr_nonnull(t);
}

/* The thread's n-th span, which is counted, launches a kernel. */
static uint64_t launch(uint64_t thread, uint64_t n)
{
    struct record *r = record_new(REC_SPAN, CAT_CPU_OP, "span", DATA_NONE, NULL, 0);
    r->id = thread << SPAN_ID_THREAD_SHIFT | n;
    r->start = r->end = clock_ticks();
    struct note *note = timeline_add(t, r);
    note->where = 1;
    note->flops = FLOPS;
    uint64_t id = r->id;
    free(r);
    ck_assert_uint_eq(attribution_launch(t, id), id);
    return id;
}

/* The kernel's record arrives. */
static unsigned placed(uint64_t id)
{
    const struct share *s = attribution_place(id);
    ck_assert(!s || (s->span == id && s->flops == FLOPS));
    return s != NULL;
}

/* At any distance of their ids, neither thread displaces the span with which the other has just
 * launched. */
START_TEST(two_threads_do_not_displace_each_others_spans)
{
    for (uint64_t shift = 0; shift <= 16; shift++) {
        uint64_t n = 1000 + (shift << 20);
        uint64_t mine = launch(1, n), others = launch(2, n ^ (UINT64_C(3) << shift));
        ck_assert_uint_eq(placed(mine) + placed(others), 2);
        launch(1, n); /* the same span launches again */
        ck_assert_uint_eq(placed(mine), 0);
    }
}
END_TEST

/* Training steps repeat, so the ids of their counted spans have a fixed distance: a power of two or
 * another number. Several threads do the same. */
START_TEST(remembers_spans_at_regular_distances)
{
    static const unsigned apart[] = {1, 2, 3, 64, 987, 1024, 4096, 65536};
    static uint64_t ids[ATTRIBUTION_MOST / 4];
    unsigned n = sizeof ids / sizeof *ids, all = 0;
    for (unsigned i = 0; i < n; i++)
        ids[i] = launch(100 + i % THREADS, 7 + (uint64_t)(i / THREADS) * apart[_i]);
    for (unsigned i = 0; i < n; i++)
        all += placed(ids[i]);
    ck_assert_uint_eq(all, n);
}
END_TEST

/* A span that launches again and again, like one around many others, must not count as old. */
START_TEST(keeps_a_span_that_launches_again)
{
    uint64_t outer = launch(1, 2 * ATTRIBUTION_MOST - 1);
    ck_assert_uint_eq(placed(outer), 1);
    for (uint64_t i = 0; i < ATTRIBUTION_MOST + ATTRIBUTION_MOST / 2; i++) {
        launch(2, i);
        if (i % 1000 == 0)
            ck_assert_uint_eq(attribution_launch(t, outer), outer);
    }
    ck_assert_uint_eq(placed(outer), 0); /* it was placed before */
    ck_assert_ptr_nonnull(attribution_find(outer));
}
END_TEST

Suite *suite_attribution(void)
{
    Suite *s = suite_create("attribution");
    TCase *c = tcase_create("shares");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, two_threads_do_not_displace_each_others_spans);
    tcase_add_loop_test(c, remembers_spans_at_regular_distances, 0, 8);
    tcase_add_test(c, keeps_a_span_that_launches_again);
    suite_add_tcase(s, c);
    return s;
}
