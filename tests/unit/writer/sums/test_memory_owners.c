/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/memory_owners.h: peaks and holders compared with a second, simple count
 * of the same events. */
#include "writer/sums/memory_owners.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer/record/modules.h"

static struct memory_owners *owners;
static int64_t total;
static uint64_t now;

static void setup(void)
{
    owners = NULL;
    total = 0;
    now = 100;
}

static void teardown(void)
{
    memory_owners_free(owners);
}

/* Takes a record with the layout that emit.c writes. */
static void take_at(uint64_t start, enum record_kind kind, uint64_t address, int64_t bytes,
                    const char *operator, uint32_t module, struct record_memory state)
{
    struct {
        struct record r;
        char behind[256];
    } put = {.r = {.kind = (uint8_t)kind,
                   .data_kind = DATA_MEMORY,
                   .start = start,
                   .name = (uint32_t)strlen(operator),
                   .data_len = sizeof state}};
    put.r.memory.address = address;
    put.r.memory.bytes = bytes;
    memcpy(put.behind, operator, strlen(operator));
    memcpy(put.behind + strlen(operator), &state, sizeof state);
    if (module) {
        uint64_t value = module;
        put.r.extras = 1u << EXTRA_MODULE;
        memcpy(put.behind + strlen(operator) + sizeof state, &value, sizeof value);
    }
    ck_assert(memory_owners_take(&owners, &put.r, 1));
}

static void event(uint64_t address, int64_t bytes, const char *operator, uint32_t module)
{
    total += bytes;
    take_at(++now, REC_MEMORY, address, bytes, operator, module,
            (struct record_memory){total, 2 * total, 1, 3});
}

static void settle(void)
{
    memory_owners_settle(owners, UINT64_MAX, NULL, NULL);
}

START_TEST(accepts_no_records)
{
    ck_assert_ptr_null(memory_owners_device(NULL, 0));
    memory_owners_settle(NULL, 1, NULL, NULL);
    ck_assert(!memory_owners_full(NULL));
}
END_TEST

/* As a large model with stacks: thousands of layers, each with several calls. */
START_TEST(finds_a_leak_among_many_holders)
{
    for (uint32_t module = 1; module <= 20000; module++) {
        event(16 * module, 10, "aten::a", module);
        event(16 * module, -10, "", 0);
    }
    event(8, 1000, "aten::leak", 20001);
    settle();
    struct memory_holders held;
    memory_owners_at_end(owners, memory_owners_device(owners, 0), &held);
    ck_assert_uint_eq(held.n, 1);
    ck_assert_int_eq(held.top[0].bytes, 1000);
    ck_assert_uint_eq(held.top[0].module, 20001);
    ck_assert_int_eq(held.unknown, 0);
}
END_TEST

START_TEST(finds_holders_at_peak_and_end)
{
    event(16, 100, "aten::a", 0);
    event(32, 50, "aten::b", 0);
    event(16, -100, "", 0);
    event(48, 70, "aten::a", 0);
    event(64, 40, "aten::a", 0); /* 160: the peak */
    event(32, -50, "", 0);
    event(80, 30, "aten::c", 0);
    settle();
    const struct memory_device *d = memory_owners_device(owners, 0);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(d->type, 1);
    ck_assert_int_eq(d->index, 3);
    ck_assert_int_eq(d->first, 0);
    ck_assert_int_eq(d->peak, 160);
    ck_assert_int_eq(d->peak_reserved, 320);
    ck_assert_uint_eq(d->peak_at, 105);
    ck_assert_int_eq(d->last, 140);
    ck_assert_ptr_null(memory_owners_device(owners, 1));
    struct memory_holders h;
    memory_owners_at_peak(owners, d, &h);
    ck_assert_uint_eq(h.n, 2);
    ck_assert_int_eq(h.top[0].bytes, 110);
    ck_assert_uint_eq(h.top[0].allocations, 2);
    ck_assert_int_eq(memcmp(h.top[0].name, "aten::a", 7), 0);
    ck_assert_int_eq(h.top[1].bytes, 50);
    ck_assert_int_eq(h.unknown, 0);
    memory_owners_at_end(owners, d, &h);
    ck_assert_uint_eq(h.n, 2);
    ck_assert_int_eq(h.top[1].bytes, 30);
}
END_TEST

/* Memory from before the window, known from the caching allocator's totals. */
START_TEST(memory_from_before_the_window_is_unknown)
{
    total = 1000;
    event(7, -400, "", 0); /* allocated before the window */
    event(16, 100, "aten::a", 0);
    settle();
    const struct memory_device *d = memory_owners_device(owners, 0);
    ck_assert_int_eq(d->first, 1000);
    ck_assert_int_eq(d->peak, 1000);
    struct memory_holders h;
    memory_owners_at_end(owners, d, &h);
    ck_assert_int_eq(h.unknown, 600);
    memory_owners_at_peak(owners, d, &h);
    ck_assert_int_eq(h.unknown, 1000);
    ck_assert_uint_eq(h.n, 0);
}
END_TEST

START_TEST(separates_one_operator_by_module)
{
    uint32_t a = modules_id("Net.a", 5), b = modules_id("Net.b", 5);
    event(16, 100, "aten::x", a);
    event(32, 300, "aten::x", b);
    settle();
    struct memory_holders h;
    memory_owners_at_peak(owners, memory_owners_device(owners, 0), &h);
    ck_assert_uint_eq(h.n, 2);
    ck_assert_uint_eq(h.top[0].module, b);
    ck_assert_uint_eq(h.top[1].module, a);
}
END_TEST

/* The rings of two threads are drained one after the other. The second thread reuses an address of
 * the first. */
START_TEST(orders_events_of_threads_by_time)
{
    struct record_memory state = {.device_index = -1};
#define AT(t, address, bytes, sum)                                                                 \
    state.total_allocated = sum;                                                                   \
    take_at(t, REC_MEMORY, address, bytes, bytes > 0 ? "aten::x" : "", 0, state)
    AT(10, 16, 100, 100);
    AT(30, 16, 200, 200);
    AT(20, 16, -100, 0);
    AT(40, 16, -200, 0);
    memory_owners_settle(owners, 35, NULL, NULL);
    const struct memory_device *d = memory_owners_device(owners, 0);
    ck_assert_int_eq(d->last, 200);
    AT(36, 32, 5, 205);
    settle();
    ck_assert_int_eq(d->peak, 205);
    ck_assert_int_eq(d->last, 0);
    struct memory_holders h;
    memory_owners_at_peak(owners, d, &h);
    ck_assert_uint_eq(h.n, 1);
    ck_assert_int_eq(h.top[0].bytes, 205);
    ck_assert_uint_eq(h.top[0].allocations, 2);
    memory_owners_at_end(owners, d, &h);
    ck_assert_int_eq(h.top[0].bytes, 5);
    ck_assert_uint_eq(h.top[0].allocations, 1);
}
END_TEST

static struct memory_holders at_failure;
static int64_t failed_bytes;

static void failed(const struct memory_event *e, const struct memory_holders *h, void *arg)
{
    ck_assert_ptr_eq(arg, &failed_bytes);
    failed_bytes = e->bytes;
    at_failure = *h;
}

START_TEST(reports_holders_at_a_failed_allocation)
{
    event(16, 100, "aten::a", 0);
    take_at(++now, REC_OUT_OF_MEMORY, 0, 1 << 20, "aten::empty", 0,
            (struct record_memory){total, total, 1, 3});
    event(32, 50, "aten::b", 0);
    memory_owners_settle(owners, UINT64_MAX, failed, &failed_bytes);
    ck_assert_int_eq(failed_bytes, 1 << 20);
    ck_assert_uint_eq(at_failure.n, 1); /* without later blocks */
    ck_assert_int_eq(at_failure.top[0].bytes, 100);
    ck_assert_int_eq(memory_owners_device(owners, 0)->peak, 150);
}
END_TEST

/* Random events compared with a plain count, which searches all live blocks at each new peak. */
START_TEST(agrees_with_a_plain_count)
{
    enum { BLOCKS = 400, KINDS = 25 };
    static int64_t bytes[BLOCKS], sums[KINDS], at_peak[KINDS];
    static int kind[BLOCKS];
    int64_t peak = 0;
    srand(7);
    for (int i = 0; i < 40000; i++) {
        int at = rand() % BLOCKS;
        char name[32];
        if (bytes[at]) {
            sums[kind[at]] -= bytes[at];
            event((uint64_t)at * 64 + 64, -bytes[at], "", 0);
            bytes[at] = 0;
        } else {
            kind[at] = rand() % KINDS;
            bytes[at] = rand() % 100000 + 1;
            sums[kind[at]] += bytes[at];
            snprintf(name, sizeof name, "aten::op%d", kind[at]);
            event((uint64_t)at * 64 + 64, bytes[at], name, 0);
        }
        if (total > peak) {
            peak = total;
            memcpy(at_peak, sums, sizeof sums);
        }
        if (i % 1000 == 999)
            settle();
    }
    const struct memory_device *d = memory_owners_device(owners, 0);
    ck_assert_int_eq(d->peak, peak);
    struct memory_holders h;
    memory_owners_at_peak(owners, d, &h);
    ck_assert_uint_eq(h.n, OWNERS_TOP);
    ck_assert_int_eq(h.unknown, 0);
    int64_t sum = h.others;
    for (unsigned i = 0; i < h.n; i++) {
        sum += h.top[i].bytes;
        ck_assert(i == 0 || h.top[i - 1].bytes >= h.top[i].bytes);
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)h.top[i].name_len, h.top[i].name);
        ck_assert_int_eq(h.top[i].bytes, at_peak[atoi(name + strlen("aten::op"))]);
    }
    ck_assert_int_eq(sum, peak);
}
END_TEST

/* More operators and blocks than fit: the rest counts as unknown, never for a wrong holder. */
START_TEST(memory_beyond_its_limits_is_unknown)
{
    for (int i = 0; i < 40000; i++) {
        char name[32];
        snprintf(name, sizeof name, "aten::op%d", i);
        event((uint64_t)i * 64 + 64, 10, name, 0);
    }
    settle();
    struct memory_holders h;
    const struct memory_device *d = memory_owners_device(owners, 0);
    memory_owners_at_end(owners, d, &h);
    ck_assert_int_eq(d->last, 400000);
    ck_assert_int_gt(h.unknown, 0);
    ck_assert_int_eq(h.unknown + h.others + 10 * (int64_t)h.n, 400000);
    for (int i = 0; i < 40; i++)
        take_at(++now, REC_MEMORY, 8, 1, "aten::x", 0,
                (struct record_memory){.total_allocated = 1, .device_type = 1, .device_index = i});
    settle();
    ck_assert_ptr_nonnull(memory_owners_device(owners, OWNERS_DEVICES - 1));
    ck_assert_ptr_null(memory_owners_device(owners, OWNERS_DEVICES));
}
END_TEST

Suite *suite_memory_owners(void)
{
    Suite *s = suite_create("memory_owners");
    TCase *c = tcase_create("memory_owners");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, accepts_no_records);
    tcase_add_test(c, finds_holders_at_peak_and_end);
    tcase_add_test(c, finds_a_leak_among_many_holders);
    tcase_add_test(c, memory_from_before_the_window_is_unknown);
    tcase_add_test(c, separates_one_operator_by_module);
    tcase_add_test(c, orders_events_of_threads_by_time);
    tcase_add_test(c, reports_holders_at_a_failed_allocation);
    tcase_add_test(c, agrees_with_a_plain_count);
    tcase_add_test(c, memory_beyond_its_limits_is_unknown);
    suite_add_tcase(s, c);
    return s;
}
