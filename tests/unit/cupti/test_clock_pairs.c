/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/clock_pairs.h: which thread takes pairs of readings, when, and where they go. A
 * busy machine may delay a reading, so the tests repeat what must happen. */
#include "cupti/clock_pairs.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cupti/gpu_trace.h"

#define OFTEN 10000

static struct cupti_clock map;
static int64_t off;
static int answer;

static int now(uint64_t *stamp)
{
    *stamp = (uint64_t)(clock_wall_now() + off);
    return answer;
}

static void setup(void)
{
    clock_start();
    memset(&map, 0, sizeof map);
}

/* A CUDA call that ends when a pair is due, if one is ever due. */
static void call(void)
{
    uint64_t due = atomic_load(&gpu_clock_due);
    gpu_clock_look(due == UINT64_MAX ? clock_ticks() : due);
}

/* Opens the gate for calls. False: readings are slow here (valgrind), so calls take no pairs. */
static bool open_gate(void)
{
    for (int i = 0; i < OFTEN && atomic_load(&gpu_clock_due) == UINT64_MAX; i++)
        clock_pairs_take(&map, now, UINT64_MAX);
    bool is_open = atomic_load(&gpu_clock_due) != UINT64_MAX;
    if (!is_open)
        printf("clock_pairs: skipped, a reading of CLOCK_REALTIME takes too long here\n");
    return is_open;
}

START_TEST(takes_no_pair_unasked)
{
    call();
    gpu_clock_take();
    clock_pairs_take(&map, now, UINT64_MAX);
    ck_assert_uint_eq(map.count, 0);
}
END_TEST

START_TEST(calls_take_pairs)
{
    for (int i = 0; i < OFTEN && map.count < 2 && open_gate(); i++) {
        atomic_store(&gpu_clock_due, 0);
        call();
        ck_assert_uint_gt(atomic_load(&gpu_clock_due), 0);
        clock_pairs_take(&map, now, UINT64_MAX);
    }
    if (atomic_load(&gpu_clock_due) == UINT64_MAX && map.count < 2)
        return;
    ck_assert_uint_eq(map.count, 2);
    uint64_t ticks = clock_ticks(), stamp = (uint64_t)clock_wall_now();
    ck_assert_uint_lt(cupti_clock_last(&map)->ticks, ticks);
    ck_assert_uint_lt(cupti_clock_last(&map)->cupti, stamp);
}
END_TEST

/* The cprof thread reads the clocks and is then delayed while calls take pairs. These pairs are
 * newer than its own reading, so they must be added after it, the next time. */
START_TEST(adds_newer_pairs_the_next_time)
{
    if (!open_gate())
        return;
    uint64_t stamp = (uint64_t)clock_wall_now(), own = clock_ticks();
    for (int i = 0; i < OFTEN; i++) {
        atomic_store(&gpu_clock_due, 0);
        call();
    }
    clock_pairs_take(&map, now, own);
    ck_assert_uint_eq(map.count, 0);
    cupti_clock_add(&map, stamp, own);
    for (int i = 0; i < OFTEN && map.count < 2; i++)
        clock_pairs_take(&map, now, UINT64_MAX);
    ck_assert_uint_ge(map.count, 2);
    ck_assert_uint_gt(cupti_clock_last(&map)->ticks, own);
}
END_TEST

START_TEST(takes_no_pair_before_it_is_due)
{
    if (!open_gate())
        return;
    atomic_store(&gpu_clock_due, clock_ticks() * 2);
    gpu_clock_look(clock_ticks());
    gpu_clock_take();
    clock_pairs_take(&map, now, UINT64_MAX);
    ck_assert_uint_eq(map.count, 0);
}
END_TEST

/* CUPTI uses another clock or does not answer: cprof drops the pairs that calls took. */
START_TEST(drops_pairs_of_another_clock)
{
    static const int64_t offs[] = {1000000000, -1000000000, -1700000000000000000, 0};
    for (size_t n = 0; n < sizeof offs / sizeof *offs; n++) {
        off = 0;
        answer = 0;
        if (!open_gate())
            return;
        call();
        off = offs[n];
        answer = off == 0 ? 999 : 0;
        setup();
        clock_pairs_take(&map, now, UINT64_MAX);
        ck_assert_uint_eq(map.count, 0);
        atomic_store(&gpu_clock_due, 0);
        call(); /* notices that no pairs are wanted */
        ck_assert_uint_eq(atomic_load(&gpu_clock_due), UINT64_MAX);
        clock_pairs_take(&map, now, UINT64_MAX);
        ck_assert_uint_eq(map.count, 0);
        ck_assert_uint_eq(atomic_load(&gpu_clock_due), UINT64_MAX);
    }
}
END_TEST

/* Calls stop taking pairs when the cprof thread does not fetch them, and begin again after it
 * has. */
START_TEST(calls_stop_when_the_ring_is_full)
{
    if (!open_gate())
        return;
    for (int i = 0; i < OFTEN * 100 && atomic_load(&gpu_clock_due) != UINT64_MAX; i++) {
        atomic_store(&gpu_clock_due, 0);
        call();
    }
    ck_assert_uint_eq(atomic_load(&gpu_clock_due), UINT64_MAX);
    ck_assert(open_gate());
}
END_TEST

static _Atomic bool over;
static _Atomic unsigned calls;

static void *calling(void *unused)
{
    while (!atomic_load(&over)) {
        atomic_store(&gpu_clock_due, 0);
        gpu_clock_look(clock_ticks());
        atomic_fetch_add(&calls, 1);
    }
    return unused;
}

START_TEST(pairs_of_many_threads_stay_in_order)
{
    pthread_t threads[3];
    uint64_t before = 0;
    if (!open_gate())
        return;
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, calling, NULL), 0);
    for (int i = 0; i < 300; i++) {
        clock_pairs_take(&map, now, UINT64_MAX);
        const struct clock_pair *last = cupti_clock_last(&map);
        ck_assert_uint_ge(last ? last->ticks : 0, before);
        before = last ? last->ticks : before;
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 1; i < map.count; i++)
        ck_assert_uint_gt(map.pairs[(map.first + i) % CLOCK_PAIRS].ticks,
                          map.pairs[(map.first + i - 1) % CLOCK_PAIRS].ticks);
}
END_TEST

static int stopped[2], released[2]; /* pipes */

/* Holds the thread up wherever it is, as the scheduler does. */
static void hold_up(int signal)
{
    char byte = (char)signal;
    if (write(stopped[1], &byte, 1) != 1 || read(released[0], &byte, 1) != 1)
        atomic_store(&over, true);
}

/* While another thread reads the clocks, this one may: true if it then has a pair in the map. */
static bool reads_meanwhile(void)
{
    uint64_t since = clock_ticks();
    for (int n = 0; n < 20; n++) { /* this thread may be preempted, too */
        atomic_store(&gpu_clock_due, 0);
        gpu_clock_take();
    }
    clock_pairs_take(&map, now, UINT64_MAX);
    const struct clock_pair *last = cupti_clock_last(&map);
    return last && last->ticks > since;
}

/* A thread that is preempted while it reads the clocks keeps no other thread from reading them,
 * unless it is just writing into the ring. */
START_TEST(preempted_reading_stops_no_other)
{
    enum { ROUNDS = 60 };
    pthread_t reader;
    unsigned without = 0;
    char byte = 0;
    if (!open_gate())
        return;
    ck_assert_int_eq(pipe(stopped) + pipe(released), 0);
    signal(SIGUSR1, hold_up);
    ck_assert_int_eq(pthread_create(&reader, NULL, calling, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        for (unsigned seen = atomic_load(&calls); atomic_load(&calls) == seen;)
            sched_yield();
        pthread_kill(reader, SIGUSR1);
        ck_assert_int_eq(read(stopped[0], &byte, 1), 1);
        clock_pairs_take(&map, now, UINT64_MAX);
        without += !reads_meanwhile();
        ck_assert_int_eq(write(released[1], &byte, 1), 1);
    }
    atomic_store(&over, true);
    pthread_join(reader, NULL);
    ck_assert_uint_lt(without, ROUNDS / 4);
}
END_TEST

Suite *suite_clock_pairs(void)
{
    Suite *s = suite_create("clock_pairs");
    TCase *c = tcase_create("pairs");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, takes_no_pair_unasked);
    tcase_add_test(c, calls_take_pairs);
    tcase_add_test(c, adds_newer_pairs_the_next_time);
    tcase_add_test(c, takes_no_pair_before_it_is_due);
    tcase_add_test(c, drops_pairs_of_another_clock);
    tcase_add_test(c, calls_stop_when_the_ring_is_full);
    tcase_add_test(c, pairs_of_many_threads_stay_in_order);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, preempted_reading_stops_no_other);
    suite_add_tcase(s, c);
    return s;
}
