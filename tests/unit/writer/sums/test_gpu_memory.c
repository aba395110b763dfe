/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/gpu_memory.h: totals, lost and late records, limits, and a comparison
 * with a plain list. */
#include "tests/support/alloc.h"
#include "writer/sums/gpu_memory.h"

#include <check.h>

static struct gpu_memory memory;
static uint64_t now;

static uint64_t note(uint8_t flags, uint32_t device, uint8_t kind, uint64_t address, uint64_t bytes)
{
    struct gpu_record r = {.kind = GPU_MEMORY, .flags = flags, .device = device, .start = ++now};
    r.memory.address = address;
    r.memory.bytes = bytes;
    r.memory.kind = kind;
    return gpu_memory_note(&memory, &r);
}

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

START_TEST(keeps_totals_by_device_and_kind)
{
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 100);
    ck_assert_uint_eq(note(0, 1, GPU_MEMORY_DEVICE, 0x2000, 30), 30);
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_ARRAY, 0x3000, 7), 7);
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x4000, 11), 111);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 11);
    ck_assert_uint_eq(note(GPU_RELEASE, 1, GPU_MEMORY_DEVICE, 0x2000, 30), 0);
    gpu_memory_free(&memory);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x4000, 11), 0);
}
END_TEST

START_TEST(keeps_peaks)
{
    note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x9000, 1000); /* unknown block: changes no total */
    ck_assert_uint_eq(memory.totals[0].peak, 0);
    note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 100);
    note(0, 0, GPU_MEMORY_PINNED, 0x2000, 7);
    note(0, 0, GPU_MEMORY_DEVICE, 0x3000, 20);
    uint64_t at = now;
    note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 100);
    note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x9000, 1000);
    note(0, 0, GPU_MEMORY_DEVICE, 0x4000, 100); /* reaches the peak again, does not exceed it */
    ck_assert_uint_eq(memory.n_totals, 2);
    ck_assert_uint_eq(memory.totals[0].peak, 120);
    ck_assert_uint_eq(memory.totals[0].peak_at, at);
    ck_assert_uint_eq(memory.totals[1].peak, 7);
    gpu_memory_free(&memory);
}
END_TEST

START_TEST(host_memory_belongs_to_no_device)
{
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_PINNED, 0x1000, 100), 100);
    ck_assert_uint_eq(note(0, 1, GPU_MEMORY_PINNED, 0x2000, 10), 110);
    ck_assert_uint_eq(note(0, 1, GPU_MEMORY_MANAGED, 0x3000, 1), 1);
    ck_assert_uint_eq(note(GPU_RELEASE, 7, GPU_MEMORY_PINNED, 0x1000, 100), 10);
}
END_TEST

START_TEST(ignores_releases_without_an_allocation)
{
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 0);
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 100);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1001, 100), 100);
    /* The size that the release reports is ignored. */
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 0), 0);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 0);
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0, 100),
                      0); /* address 0: the allocation failed */
}
END_TEST

START_TEST(handles_lost_and_late_releases)
{
    note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 100);
    now = 20; /* the release was lost, and the address is used again */
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 300), 300);
    now = 10; /* the release arrives after all */
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 300);
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 1), 300);
    now = 30;
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 300), 0);
}
END_TEST

/* The buffer of the thread that releases comes before that of the thread that allocates. */
START_TEST(allocation_after_its_release_is_not_counted)
{
    now = 20;
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 0);
    now = 10;
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 0);
    now = 30; /* the next allocation at this address stays */
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 7), 7);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x1000, 7), 0);
}
END_TEST

/* Blocks allocated between windows have no record. Their releases must not use the table's room,
 * which live blocks need. */
START_TEST(unknown_releases_take_no_room)
{
    for (uint64_t i = 0; i < GPU_MEMORY_LIVE; i++)
        note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 0x100000000 + i * 512, 512);
    for (uint64_t i = 1; i <= GPU_MEMORY_LIVE / 4 * 3; i++)
        ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x900000000 + i * 512, 512), i * 512);
}
END_TEST

#define ADDRESSES 600u

START_TEST(agrees_with_a_plain_list)
{
    static uint64_t bytes[ADDRESSES];
    static uint8_t device[ADDRESSES];
    uint64_t totals[2] = {0, 0};
    for (int i = 0; i < 300000; i++) {
        unsigned k = next_random() % ADDRESSES;
        uint8_t d = next_random() % 2;
        if (next_random() % 16 < (unsigned)(i / 20000 % 2 ? 4 : 12)) {
            totals[device[k]] -= bytes[k];
            bytes[k] = next_random() % 1000;
            device[k] = d;
            totals[d] += bytes[k];
            ck_assert_uint_eq(note(0, d, GPU_MEMORY_DEVICE, (k + 1) * 512u, bytes[k]), totals[d]);
        } else {
            totals[device[k]] -= bytes[k];
            bytes[k] = 0;
            ck_assert_uint_eq(note(GPU_RELEASE, d, GPU_MEMORY_DEVICE, (k + 1) * 512u, 1),
                              totals[d]);
        }
    }
    gpu_memory_free(&memory);
}
END_TEST

START_TEST(bounds_its_size)
{
    for (uint64_t i = 1; i <= GPU_MEMORY_LIVE; i++)
        ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, i << 9, 1), i);
    ck_assert_uint_eq(memory.refused, 0);
    ck_assert_uint_le(memory.capacity, 2 * GPU_MEMORY_LIVE);
    ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 1, 1), GPU_MEMORY_LIVE);
    ck_assert_uint_eq(memory.refused, 1);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 1, 1), GPU_MEMORY_LIVE);
    for (uint64_t i = GPU_MEMORY_LIVE; i > 0; i--)
        ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, i << 9, 1), i - 1);
    gpu_memory_free(&memory);
    for (uint32_t d = 0; d < GPU_MEMORY_TOTALS; d++)
        ck_assert_uint_eq(note(0, d, GPU_MEMORY_DEVICE, 64 + d, 5), 5);
    ck_assert_uint_eq(note(0, GPU_MEMORY_TOTALS, GPU_MEMORY_DEVICE, 1, 5), 0);
    ck_assert_uint_eq(note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 64, 5), 0);
    gpu_memory_free(&memory);
}
END_TEST

START_TEST(counts_what_it_can_without_memory)
{
    if (alloc_is_ours) {
        alloc_fail_from(1000);
        ck_assert_uint_eq(note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 100), 0);
        alloc_fail_from(0);
        note(0, 0, GPU_MEMORY_DEVICE, 0x1000, 1);
        alloc_fail_from(1000);
        for (uint64_t i = 2; i < 1000; i++)
            note(0, 0, GPU_MEMORY_DEVICE, i << 12, 1);
        uint64_t most = note(GPU_RELEASE, 0, GPU_MEMORY_DEVICE, 8, 1);
        ck_assert_uint_gt(most, 30);
        ck_assert_uint_lt(most, memory.capacity); /* one slot stays empty */
        alloc_fail_from(0);
    }
    gpu_memory_free(&memory);
}
END_TEST

Suite *suite_gpu_memory(void)
{
    Suite *suite = suite_create("gpu_memory");
    TCase *all = tcase_create("all");
    tcase_add_test(all, keeps_totals_by_device_and_kind);
    tcase_add_test(all, keeps_peaks);
    tcase_add_test(all, host_memory_belongs_to_no_device);
    tcase_add_test(all, ignores_releases_without_an_allocation);
    tcase_add_test(all, handles_lost_and_late_releases);
    tcase_add_test(all, allocation_after_its_release_is_not_counted);
    tcase_add_test(all, unknown_releases_take_no_room);
    tcase_add_test(all, agrees_with_a_plain_list);
    tcase_add_test(all, bounds_its_size);
    tcase_add_test(all, counts_what_it_can_without_memory);
    suite_add_tcase(suite, all);
    return suite;
}
