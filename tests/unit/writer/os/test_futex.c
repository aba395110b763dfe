/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the lock in writer/os/futex.h: one holder at a time; waiters sleep until the unlock. */
#include "writer/os/futex.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>

#define THREADS 4
#define TIMES   20000

static _Atomic uint32_t word;
static unsigned counter; /* guarded by the lock */

static void *count_up(void *unused)
{
    for (unsigned i = 0; i < TIMES; i++) {
        if (!futex_lock(&word, -1))
            return &word;
        counter++;
        futex_unlock(&word);
    }
    return unused;
}

START_TEST(allows_one_holder_at_a_time)
{
    pthread_t threads[THREADS];
    void *failed;
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(counter, THREADS * TIMES);
    ck_assert_uint_eq(word, FUTEX_FREE);
}
END_TEST

static int64_t waiter_cpu_ns;

static void *wait_for_lock(void *unused)
{
    struct timespec t;
    futex_lock(&word, -1);
    futex_unlock(&word);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    waiter_cpu_ns = t.tv_sec * 1000000000 + t.tv_nsec;
    return unused;
}

/* A spinning waiter would keep the processor from a holder of lower priority. */
START_TEST(waiter_sleeps_without_spinning)
{
    const struct timespec pause = {.tv_nsec = 400000000};
    pthread_t waiter;
    ck_assert(futex_lock(&word, -1));
    ck_assert_int_eq(pthread_create(&waiter, NULL, wait_for_lock, NULL), 0);
    while (word != FUTEX_AWAITED)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&pause, NULL);
    futex_unlock(&word);
    ck_assert_int_eq(pthread_join(waiter, NULL), 0);
    ck_assert_int_lt(waiter_cpu_ns, 40000000);
}
END_TEST

START_TEST(wait_ends_at_its_limit)
{
    ck_assert(futex_lock(&word, 10));
    uint64_t begun = clock_monotonic_ns();
    errno = ENOENT;
    ck_assert(!futex_lock(&word, 10));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_uint_ge(clock_monotonic_ns() - begun, 9000000);
    ck_assert(!futex_lock(&word, 0));
    futex_unlock(&word);
    ck_assert(futex_lock(&word, 0));
    futex_unlock(&word);
}
END_TEST

Suite *suite_futex(void)
{
    Suite *suite = suite_create("futex");
    TCase *all = tcase_create("all");
    tcase_add_test(all, allows_one_holder_at_a_time);
    tcase_add_test(all, waiter_sleeps_without_spinning);
    tcase_add_test(all, wait_ends_at_its_limit);
    suite_add_tcase(suite, all);
    return suite;
}
