/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/hold.h: held records come back in order and unchanged, each with its
 * thread, up to a limit. */
#include "writer/record/hold.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/alloc.h"
#include "tests/support/records.h"

static struct hold hold;
static struct thread_log *logs[3]; /* only their addresses matter */

static void setup(void)
{
    for (size_t i = 0; i < 3; i++)
        logs[i] = (struct thread_log *)(0x1000 * (i + 1));
    hold_begin(&hold, 500, 64u << 20);
}

static void teardown(void)
{
    hold_drop(&hold);
}

static bool put(unsigned n, size_t text_len, uint8_t flags, size_t shapes)
{
    char *text = malloc(text_len + 1);
    memset(text, 'a' + (int)(n % 26), text_len);
    text[text_len] = '\0';
    char *data = calloc(1, shapes + 1);
    struct record *r =
        record_new(REC_SPAN, CAT_CPU_OP, text, shapes ? DATA_SHAPES : DATA_NONE, data, shapes);
    r->start = r->id = n;
    r->flags = flags;
    struct record_owner owner = {logs[n % 3], n + 7, n % 3 + 100};
    bool kept = hold_put(&hold, &owner, r);
    free(r);
    free(data);
    free(text);
    return kept;
}

static unsigned seen;

static void check_each(const struct record_owner *owner, const struct record *r, void *arg)
{
    unsigned n = seen++;
    ck_assert_ptr_eq(arg, &seen);
    if (owner->log != logs[n % 3] || owner->torch_thread != n + 7 || owner->tid != n % 3 + 100)
        ck_abort_msg("record %u came from another thread", n);
    if (r->id != n || r->slots != record_slots(r->name, r->data_len, r->extras))
        ck_abort_msg("record %u came as %lu", n, (unsigned long)r->id);
    for (uint32_t i = 0; i < record_name(r).len; i++)
        if (record_name(r).at[i] != (char)('a' + (int)(n % 26)))
            ck_abort_msg("record %u has another name", n);
}

START_TEST(returns_records_in_order)
{
    enum { N = 30000 };
    hold_each(&hold, check_each, &seen);
    ck_assert_uint_eq(seen, 0);
    for (unsigned n = 0; n < N; n++)
        if (!put(n, n % 1000 == 999 ? 100000 : n % 80, 0, n % 2 ? 0 : 50))
            ck_abort_msg("record %u was refused", n);
    hold_each(&hold, check_each, &seen);
    ck_assert_uint_eq(seen, N);
    seen = 0;
    hold_each(&hold, check_each, &seen); /* the records are still held */
    ck_assert_uint_eq(seen, N);
    ck_assert_uint_eq(hold.refused, 0);
}
END_TEST

START_TEST(holds_a_record_larger_than_a_chunk)
{
    ck_assert(put(0, 3u << 20, 0, 0));
    ck_assert(put(1, 1, 0, 0));
    hold_each(&hold, check_each, &seen);
    ck_assert_uint_eq(seen, 2);
}
END_TEST

static void check_extras(const struct record_owner *owner, const struct record *r, void *unused)
{
    (void)owner, (void)unused;
    ck_assert_uint_eq(r->data_len, 16);
    ck_assert_uint_eq(record_extra(r, EXTRA_STACK, 0), 5);
    ck_assert_uint_eq(record_extra(r, EXTRA_FLOPS, 0), 6);
}

START_TEST(keeps_extras)
{
    static const struct record_owner owner;
    struct {
        struct record r;
        char shapes[16];
        uint64_t extras[2];
        char rest[32]; /* fills the last slot */
    } copy = {.r = {.kind = REC_SPAN, .data_kind = DATA_SHAPES, .data_len = 16, .slots = 2},
              .extras = {5, 6}};
    copy.r.extras = 1u << EXTRA_STACK | 1u << EXTRA_FLOPS;
    hold_begin(&hold, 1, 1 << 20);
    ck_assert(hold_put(&hold, &owner, &copy.r));
    hold_each(&hold, check_extras, NULL);
}
END_TEST

START_TEST(refuses_records_beyond_the_limit)
{
    hold_begin(&hold, 1, 100000);
    unsigned n = 0;
    while (put(n, 40, 0, 0))
        n++;
    ck_assert_uint_gt(n, 100000 / 200);
    ck_assert_uint_le(hold.bytes, 100000);
    ck_assert(!put(n, 40, REC_SKIPPED, 0));
    ck_assert_uint_eq(hold.refused, 2);
    ck_assert_uint_eq(hold.refused_skipped, 1);
    hold_each(&hold, check_each, &seen);
    ck_assert_uint_eq(seen, n);
    hold_begin(&hold, 2, 100000); /* starts again, empty */
    ck_assert_uint_eq(hold.refused + hold.refused_skipped + hold.bytes, 0);
    ck_assert(put(0, 40, 0, 0));
}
END_TEST

START_TEST(refuses_records_without_memory)
{
    if (!alloc_is_ours)
        return;
    ck_assert(put(0, 10, 0, 0));
    alloc_fail_from(1u << 20);
    unsigned n = 1;
    while (put(n, 10, 0, 0)) /* uses the rest of the first chunk */
        n++;
    alloc_fail_from(0);
    ck_assert_uint_eq(hold.refused, 1);
    ck_assert(put(n, 10, 0, 0));
    hold_each(&hold, check_each, &seen);
    ck_assert_uint_eq(seen, n + 1);
}
END_TEST

START_TEST(drop_forgets_all_records)
{
    ck_assert(put(0, 10, 0, 0));
    ck_assert(hold.on);
    hold_drop(&hold);
    ck_assert(!hold.on);
    ck_assert_uint_eq(hold.from, 0);
    hold_each(&hold, check_each, &seen);
    ck_assert_uint_eq(seen, 0);
    hold_drop(&hold);
}
END_TEST

Suite *suite_hold(void)
{
    Suite *suite = suite_create("hold");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, returns_records_in_order);
    tcase_add_test(all, holds_a_record_larger_than_a_chunk);
    tcase_add_test(all, keeps_extras);
    tcase_add_test(all, refuses_records_beyond_the_limit);
    tcase_add_test(all, refuses_records_without_memory);
    tcase_add_test(all, drop_forgets_all_records);
    suite_add_tcase(suite, all);
    return suite;
}
