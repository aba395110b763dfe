/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/ring.h: places, wrapping, pads and fullness against a model; then a
 * producer and a consumer on two threads, with checksums in the records. */
#include "writer/record/ring.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/alloc.h"

static struct ring ring;

static void make(uint64_t slots)
{
    void *at = aligned_alloc(RECORD_SLOT, slots * RECORD_SLOT);
    ck_assert_ptr_nonnull(at);
    ring_make(&ring, at, slots * RECORD_SLOT);
    ck_assert_uint_eq(ring.slots, slots);
}

static void teardown(void)
{
    free(ring.base);
}

/* Fills the whole record, so that take() sees an overwritten byte. */
static bool put(uint64_t slots, uint8_t mark)
{
    struct record *r = ring_reserve(&ring, slots);
    if (!r)
        return false;
    if (r < ring.base || r + slots > ring.base + ring.slots)
        ck_abort_msg("a record of %lu slots lies outside the ring", (unsigned long)slots);
    memset(r, mark, slots * RECORD_SLOT);
    r->kind = REC_SPAN;
    r->slots = (uint32_t)slots;
    ring_commit(&ring);
    return true;
}

static void take(uint64_t slots, uint8_t mark)
{
    const struct record *r = ring_peek(&ring, ring_head(&ring));
    if (!r || r->kind != REC_SPAN || r->slots != slots)
        ck_abort_msg("not the expected record of %lu slots", (unsigned long)slots);
    for (size_t i = offsetof(struct record, start); i < slots * RECORD_SLOT; i++)
        if (((const uint8_t *)r)[i] != mark)
            ck_abort_msg("byte %lu of a record was overwritten", (unsigned long)i);
    ring_take(&ring, r);
}

START_TEST(hides_a_record_until_its_commit)
{
    make(64);
    struct record *r = ring_reserve(&ring, 3);
    ck_assert_ptr_eq(ring_reserve(&ring, 3), r); /* a second call gives the same place */
    ck_assert_ptr_eq(ring_reserve(&ring, 1), r);
    ck_assert_uint_eq(ring_head(&ring), 0);
    ck_assert_ptr_null(ring_peek(&ring, ring_head(&ring)));
    ck_assert(put(3, 7));
    ck_assert_uint_eq(ring_head(&ring), 3);
    ck_assert_ptr_null(ring_peek(&ring, 0)); /* reads only below `until` */
    take(3, 7);
    ck_assert_ptr_null(ring_peek(&ring, ring_head(&ring)));
}
END_TEST

START_TEST(fills_to_the_last_slot)
{
    make(64);
    for (unsigned i = 0; i < 64; i++)
        ck_assert(put(1, (uint8_t)i));
    ck_assert(!put(1, 99));
    take(1, 0);
    ck_assert(!put(2, 99));
    ck_assert(put(1, 64));
    ck_assert(!put(1, 99));
    for (unsigned i = 1; i <= 64; i++)
        take(1, (uint8_t)i);
    ck_assert(put(16, 1));
}
END_TEST

START_TEST(pads_instead_of_wrapping_a_record)
{
    make(64);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(put(15, (uint8_t)i));
        take(15, (uint8_t)i);
    }
    ck_assert_uint_eq(ring_head(&ring), 60);
    ck_assert(put(16, 9)); /* 4 slots of pad before it */
    ck_assert_uint_eq(ring_head(&ring), 80);
    ck_assert_ptr_eq(ring_peek(&ring, ring_head(&ring)), ring.base);
    take(16, 9);
    ck_assert_uint_eq(atomic_load(&ring.tail), 80);
}
END_TEST

START_TEST(refuses_a_record_without_room_for_its_pad)
{
    make(64);
    for (unsigned i = 0; i < 60; i++)
        ck_assert(put(1, (uint8_t)i));
    for (unsigned i = 0; i < 15; i++)
        take(1, (uint8_t)i);
    ck_assert(!put(16, 99)); /* 19 slots are free, but 4 of them at the ring's end */
    take(1, 15);
    ck_assert(put(16, 60));
    for (unsigned i = 16; i < 60; i++)
        take(1, (uint8_t)i);
    take(16, 60);
}
END_TEST

/* ---- random sizes against a model ---- */

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

START_TEST(random_sizes_agree_with_a_model)
{
    static struct {
        uint64_t at, slots; /* position and length, as the model places it */
    } model[256];
    unsigned first = 0, last = 0;
    make(256);
    uint64_t head = 0, tail = 0, refused = 0;
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t slots =
            1 + next_random() % (next_random() % 4 ? 4 : 64); /* up to a quarter of the ring */
        bool fill = next_random() % 100 < (i / 1000 % 2 ? 70 : 30);
        if (fill) {
            uint64_t to_end = 256 - head % 256;
            uint64_t at = slots <= to_end ? head : head + to_end;
            bool fits = at + slots - tail <= 256;
            if (put(slots, (uint8_t)last) != fits)
                ck_abort_msg("%lu slots at %lu, tail %lu: fits: %d", (unsigned long)slots,
                             (unsigned long)head, (unsigned long)tail, fits);
            refused += !fits;
            if (fits) {
                model[last++ % 256].at = at;
                model[(last - 1) % 256].slots = slots;
                head = at + slots;
            }
        } else if (first != last) {
            take(model[first % 256].slots, (uint8_t)first);
            tail = model[first % 256].at + model[first % 256].slots;
            first++;
        } else if (ring_peek(&ring, ring_head(&ring))) {
            ck_abort_msg("a record in an empty ring");
        }
        if (ring_head(&ring) != head || atomic_load(&ring.tail) != tail)
            ck_abort_msg("head or tail differs from the model");
    }
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

START_TEST(allocates_nothing)
{
    make(64);
    uint64_t before = alloc_count();
    for (unsigned i = 0; i < 1000; i++) {
        struct record *r = ring_reserve(&ring, 5);
        r->kind = REC_SPAN;
        r->slots = 5;
        ring_commit(&ring);
        ring_take(&ring, ring_peek(&ring, ring_head(&ring)));
    }
    uint64_t after = alloc_count();
    ck_assert_uint_eq(after, before);
}
END_TEST

/* ---- two threads ---- */

#define SENT 200000u

static uint64_t checksum(const struct record *r)
{
    uint64_t sum = 14695981039346656037u ^ r->slots ^ r->start;
    const uint64_t *word = (const uint64_t *)(r + 1);
    for (uint64_t i = 0; i < (r->slots - 1) * (RECORD_SLOT / 8); i++)
        sum = (sum ^ word[i]) * 1099511628211u;
    return sum;
}

static void *produce(void *full)
{
    for (uint64_t i = 0; i < SENT;) {
        uint64_t slots = 1 + next_random() % (i % 100 ? 6 : 64);
        struct record *r = ring_reserve(&ring, slots);
        if (!r) {
            ++*(uint64_t *)full;
            sched_yield();
            continue;
        }
        r->kind = REC_SPAN;
        r->slots = (uint32_t)slots;
        r->start = i++;
        uint64_t *word = (uint64_t *)(r + 1);
        for (uint64_t k = 0; k < (slots - 1) * (RECORD_SLOT / 8); k++)
            word[k] = i * 31 + k;
        r->id = checksum(r);
        ring_commit(&ring);
    }
    return NULL;
}

START_TEST(passes_records_between_two_threads)
{
    make(256);
    uint64_t full = 0;
    pthread_t producer;
    ck_assert_int_eq(pthread_create(&producer, NULL, produce, &full), 0);
    for (uint64_t i = 0; i < SENT;) {
        uint64_t until = ring_head(&ring);
        const struct record *r;
        while ((r = ring_peek(&ring, until))) {
            if (r->start != i || r->id != checksum(r))
                ck_abort_msg("record %lu came as %lu", (unsigned long)i, (unsigned long)r->start);
            ring_take(&ring, r);
            i++;
        }
        sched_yield();
    }
    pthread_join(producer, NULL);
    ck_assert_uint_gt(full, 0); /* else the ring was never full */
    ck_assert_uint_eq(atomic_load(&ring.tail), ring_head(&ring));
}
END_TEST

Suite *suite_ring(void)
{
    Suite *suite = suite_create("ring");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, NULL, teardown);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, hides_a_record_until_its_commit);
    tcase_add_test(all, fills_to_the_last_slot);
    tcase_add_test(all, pads_instead_of_wrapping_a_record);
    tcase_add_test(all, refuses_a_record_without_room_for_its_pad);
    tcase_add_test(all, random_sizes_agree_with_a_model);
    tcase_add_test(all, allocates_nothing);
    tcase_add_test(all, passes_records_between_two_threads);
    suite_add_tcase(suite, all);
    return suite;
}
