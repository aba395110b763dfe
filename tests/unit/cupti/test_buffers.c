/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/buffers.h: order, sizes, zeroed memory and limits of buffers. In the last test
 * many threads request, fill, complete and hold buffers while the cprof thread takes them. */
#include "cupti/buffers.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sanitizer.h"
#include "writer/writer.h"

#define BIG      (256u << 10)
#define LIMIT    (16u << 20)
#define PREPARED 16 /* lower bound for each size */

static void setup(void)
{
    clock_start();
    ck_assert(buffers_start(BIG, LIMIT, true));
}

static void teardown(void)
{
    buffers_stop();
}

static uint8_t *request(size_t expected)
{
    uint8_t *data = (uint8_t *)1;
    size_t size = 1, most = 1;
    buffers_request(&data, &size, &most);
    ck_assert_uint_eq(size, expected);
    ck_assert_uint_eq(most, 0);
    ck_assert((data == NULL) == (expected == 0));
    ck_assert_uint_eq((uintptr_t)data % 4096, 0);
    return data;
}

static void complete(uint8_t *data, size_t valid)
{
    buffers_complete(NULL, 0, data, BIG, valid);
}

static unsigned recycle_all(void)
{
    unsigned n = 0;
    for (struct buffer *b = buffers_take(), *next; b; b = next, n++) {
        next = b->next;
        buffers_recycle(b);
    }
    return n;
}

static void all_zero(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i])
            ck_abort_msg("byte %lu is not zero", (unsigned long)i);
}

START_TEST(a_forced_flush_marks_the_buffers_that_it_returns)
{
    uint8_t *before = request(BIG), *during = request(BIG), *after = request(BIG);
    complete(before, 8);
    buffers_forced(true);
    complete(during, 8);
    buffers_forced(false);
    complete(after, 8);
    struct buffer *b = buffers_take();
    ck_assert_ptr_eq(b->data, before);
    ck_assert(!b->forced && b->next->forced && !b->next->next->forced);
    for (struct buffer *next; b; b = next) {
        next = b->next;
        buffers_recycle(b);
    }
    complete(request(BIG), 8); /* completes a reused buffer */
    b = buffers_take();
    ck_assert(!b->forced);
    buffers_recycle(b);
}
END_TEST

START_TEST(returns_buffers_in_order_of_completion)
{
    uint8_t *data[6];
    for (int i = 0; i < 6; i++)
        data[i] = request(BIG);
    ck_assert_uint_eq(buffers_counts().out, 6);
    static const int order[] = {3, 0, 5, 1, 4, 2};
    for (int i = 0; i < 6; i++)
        complete(data[order[i]], (size_t)i * 100);
    struct buffer *b = buffers_take();
    ck_assert_ptr_null(buffers_take());
    for (int i = 0; i < 6; i++) {
        struct buffer *next = b->next;
        ck_assert_ptr_eq(b->data, data[order[i]]);
        ck_assert_uint_eq(b->valid, (size_t)i * 100);
        buffers_recycle(b);
        b = next;
    }
    ck_assert_ptr_null(b);
    ck_assert_uint_eq(buffers_counts().out, 0);
}
END_TEST

START_TEST(unread_buffers_are_free_at_once)
{
    uint8_t *wanted = request(BIG);
    buffers_unread_from(clock_ticks());
    for (int i = 0; i < 4 * PREPARED; i++) {
        uint8_t *unread = request(BIG);
        all_zero(unread, 100);
        memset(unread, 1, 100);
        complete(unread, 100);
    }
    ck_assert_uint_eq(buffers_counts().unprepared, 0);
    uint8_t *over = request(BIG); /* unread before this request, wanted afterwards */
    buffers_unread_from(UINT64_MAX);
    complete(wanted, 8);
    complete(over, 16);
    struct buffer *b = buffers_take();
    ck_assert_ptr_eq(b->data, wanted);
    ck_assert_ptr_eq(b->next->data, over);
    ck_assert_ptr_null(b->next->next);
    buffers_recycle(b->next);
    buffers_recycle(b);
    ck_assert_uint_eq(buffers_counts().out, 0);
}
END_TEST

START_TEST(buffers_are_zero_when_handed_out)
{
    uint64_t present = buffers_counts().present;
    for (int round = 0; round < 50; round++) {
        uint8_t *data = request(BIG);
        all_zero(data, BIG);
        memset(data, 0xaa, BIG);
        complete(data, 8); /* all bytes must be zeroed, not only the valid ones */
        recycle_all();
    }
    ck_assert_uint_eq(buffers_counts().present, present); /* the same buffers were reused */
}
END_TEST

START_TEST(gives_small_buffers_when_asked)
{
    buffers_refill();
    buffers_small(true);
    uint8_t *small = request(BUFFER_SMALL);
    memset(small, 0xbb, BUFFER_SMALL);
    buffers_small(false);
    uint8_t *big = request(BIG);
    complete(big, 1);
    complete(small, 1);
    ck_assert_uint_eq(recycle_all(), 2);
    ck_assert_uint_eq(buffers_counts().unprepared, 0);
    buffers_small(true);
    all_zero(request(BUFFER_SMALL), BUFFER_SMALL);
}
END_TEST

START_TEST(a_big_request_takes_a_small_buffer_before_allocating)
{
    buffers_small(true);
    buffers_refill();
    buffers_small(false);
    for (int i = 0; i < PREPARED; i++)
        request(BIG);
    request(BUFFER_SMALL);
    ck_assert_uint_eq(buffers_counts().unprepared, 0);
}
END_TEST

START_TEST(refills_as_many_as_were_requested)
{
    for (int i = 0; i < PREPARED + 6; i++)
        request(BIG);
    ck_assert_uint_gt(buffers_counts().unprepared, 0);
    buffers_refill();
    uint64_t unprepared = buffers_counts().unprepared;
    for (int i = 0; i < PREPARED + 6; i++)
        request(BIG);
    ck_assert_uint_eq(buffers_counts().unprepared, unprepared);
    buffers_refill();
    uint64_t present = buffers_counts().present;
    buffers_refill();
    buffers_refill();
    /* a refill without requests adds nothing */
    ck_assert_uint_eq(buffers_counts().present, present);
}
END_TEST

START_TEST(refuses_requests_above_the_limit)
{
    unsigned n = 0;
    uint8_t *last = NULL;
    for (;; n++) {
        size_t size, most;
        uint8_t *data;
        buffers_request(&data, &size, &most);
        if (!data) {
            ck_assert_uint_eq(size, 0);
            break;
        }
        last = data;
    }
    ck_assert_uint_eq(n, LIMIT / BIG);
    ck_assert_uint_eq(buffers_counts().refused, 1);
    ck_assert_uint_le(buffers_counts().present, LIMIT);
    buffers_refill(); /* a refill keeps to the limit */
    request(0);
    ck_assert_uint_le(buffers_counts().present, LIMIT);
    complete(last, 1);
    recycle_all();
    request(BIG);
    request(0);
}
END_TEST

START_TEST(exceeds_the_limit_where_refusing_is_unsafe)
{
    buffers_stop();
    ck_assert(buffers_start(BIG, LIMIT, false));
    for (unsigned i = 0; i < 3 * LIMIT / BIG; i++)
        memset(request(BIG), 1, BIG);
    ck_assert_uint_eq(buffers_counts().refused, 0);
    buffers_refill(); /* a refill keeps to the limit */
    ck_assert_uint_eq(buffers_counts().present, 3 * LIMIT);
}
END_TEST

START_TEST(ignores_foreign_buffers)
{
    static uint8_t foreign[4096];
    uint8_t *ours = request(BIG);
    complete(foreign, 100);
    complete(NULL, 100);
    complete(ours + 4096, 100);     /* an address inside a buffer */
    complete(ours + 64 * BIG, 100); /* an address that was never handed out */
    complete((uint8_t *)UINT64_MAX, 1);
    ck_assert_ptr_null(buffers_take());
    complete(ours, 100);
    complete(ours, 50); /* completed twice */
    struct buffer *b = buffers_take();
    ck_assert_ptr_eq(b->data, ours);
    ck_assert_uint_eq(b->valid, 100);
    ck_assert_ptr_null(b->next);
    buffers_recycle(b);
    complete(ours, 50); /* already completed */
    ck_assert_ptr_null(buffers_take());
}
END_TEST

START_TEST(cuts_a_valid_size_above_the_buffers)
{
    uint8_t *data = request(BIG);
    complete(data, BIG + 1);
    ck_assert_uint_eq(buffers_take()->valid, BIG);
}
END_TEST

START_TEST(knows_when_all_buffers_have_returned)
{
    ck_assert(buffers_returned(UINT64_MAX));
    uint8_t *first = request(BIG);
    uint64_t between = clock_ticks() + 1;
    while (clock_ticks() <= between)
        ;
    uint8_t *second = request(BIG);
    uint64_t after = clock_ticks() + 1;
    ck_assert(!buffers_returned(after));
    ck_assert(!buffers_returned(between));
    complete(second, 1);
    ck_assert(buffers_out(after) && buffers_out(between));
    complete(first, 1);
    ck_assert(!buffers_out(after));
    ck_assert(
        !buffers_returned(between)); /* CUPTI has returned the buffer, cprof has not read it */
    struct buffer *b = buffers_take(), *next = b->next;
    buffers_recycle(next);
    ck_assert(buffers_returned(between));
    ck_assert(!buffers_returned(after));
    buffers_recycle(b);
    ck_assert(buffers_returned(after));
}
END_TEST

START_TEST(does_not_wait_for_forgotten_buffers)
{
    uint8_t *data = request(BIG);
    buffers_forget();
    ck_assert(buffers_returned(UINT64_MAX));
    uint8_t *other = request(BIG); /* must not be the forgotten buffer */
    ck_assert_ptr_ne(other, data);
    complete(data, 7); /* CUPTI completes it late */
    struct buffer *b = buffers_take();
    ck_assert_ptr_eq(b->data, data);
    buffers_recycle(b);
    ck_assert_ptr_eq(request(BIG), data);
}
END_TEST

START_TEST(trimming_gives_memory_back)
{
    uint8_t *data[40];
    for (int i = 0; i < 40; i++)
        memset(data[i] = request(BIG), 1, BIG);
    for (int i = 0; i < 40; i++)
        complete(data[i], 1);
    recycle_all();
    uint64_t present = buffers_counts().present;
    ck_assert_uint_ge(present, 40 * BIG);
    buffers_trim();
    ck_assert_uint_le(buffers_counts().present, 2 * PREPARED * BIG);
    for (int i = 0; i < 40; i++)
        all_zero(request(BIG), BIG);
    ck_assert_uint_le(buffers_counts().present, present);
}
END_TEST

/* ---- threads ---- */

#define THREADS 6
#define ROUNDS  (under_valgrind() ? 1000u : 60000u)
#define HELD    3
#define TINY    4096u /* small, so that threads contend for the free lists only */
#define FEW     (16 * TINY)

static _Atomic unsigned running, refused;

/* Writes words of this thread into a buffer. Fails if another thread has written into it. */
static void fill(uint8_t *data, size_t size, uint64_t mark)
{
    uint64_t *words = (uint64_t *)data;
    for (size_t i = 0; i < size / 8; i += 64) {
        if (words[i])
            ck_abort_msg("a buffer is not zeroed, or was handed out twice");
        words[i] = mark;
    }
}

static void *application(void *arg)
{
    uint64_t mark = (uint64_t)(uintptr_t)arg << 32, rounds = 0, most = ROUNDS;
    uint8_t *held[HELD] = {0};
    while (rounds < most) {
        unsigned at = (unsigned)rounds % HELD;
        if (held[at])
            complete(held[at], 8);
        size_t size, records;
        buffers_request(&held[at], &size, &records);
        if (held[at]) {
            fill(held[at], size, mark + ++rounds);
        } else {
            atomic_fetch_add(&refused, 1);
            sched_yield();
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i])
            complete(held[i], 8);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Checks that all words of a buffer are those of the thread that held it. */
static void check_one_owner(const struct buffer *b)
{
    const uint64_t *words = (const uint64_t *)b->data;
    for (size_t i = 64; i < b->size / 8; i += 64)
        if (words[i] != words[0] || !words[0])
            ck_abort_msg("two threads wrote into one buffer");
}

static unsigned take_all(void)
{
    unsigned n = 0;
    for (struct buffer *b = buffers_take(), *next; b; b = next, n++) {
        next = b->next;
        check_one_owner(b);
        buffers_recycle(b);
    }
    return n;
}

START_TEST(threads_never_share_a_buffer)
{
    pthread_t threads[THREADS];
    unsigned taken = 0, passes = 0;
    buffers_stop();
    ck_assert(buffers_start(TINY, FEW, true));
    atomic_store(&running, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, application, (void *)(i + 1));
    while (atomic_load(&running)) {
        taken += take_all();
        sched_yield(); /* else, on one processor, each time slice gives FEW buffers only */
        buffers_refill();
        buffers_small(++passes / 8 % 2);
        if (passes % 16 == 0)
            buffers_trim();
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    taken += take_all();
    ck_assert_uint_eq(taken, THREADS * ROUNDS);
    ck_assert_uint_eq(buffers_counts().refused, refused);
    ck_assert_uint_eq(buffers_counts().out, 0);
    ck_assert_uint_le(buffers_counts().present, FEW);
    ck_assert(buffers_returned(UINT64_MAX));
}
END_TEST

Suite *suite_buffers(void)
{
    Suite *s = suite_create("buffers");
    TCase *c = tcase_create("buffers");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, returns_buffers_in_order_of_completion);
    tcase_add_test(c, a_forced_flush_marks_the_buffers_that_it_returns);
    tcase_add_test(c, unread_buffers_are_free_at_once);
    tcase_add_test(c, buffers_are_zero_when_handed_out);
    tcase_add_test(c, gives_small_buffers_when_asked);
    tcase_add_test(c, a_big_request_takes_a_small_buffer_before_allocating);
    tcase_add_test(c, refills_as_many_as_were_requested);
    tcase_add_test(c, refuses_requests_above_the_limit);
    tcase_add_test(c, exceeds_the_limit_where_refusing_is_unsafe);
    tcase_add_test(c, ignores_foreign_buffers);
    tcase_add_test(c, cuts_a_valid_size_above_the_buffers);
    tcase_add_test(c, knows_when_all_buffers_have_returned);
    tcase_add_test(c, does_not_wait_for_forgotten_buffers);
    tcase_add_test(c, trimming_gives_memory_back);
    tcase_add_test(c, threads_never_share_a_buffer);
    suite_add_tcase(s, c);
    return s;
}
