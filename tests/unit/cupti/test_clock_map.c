/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/clock_map.h with no pair, one pair, a few and thousands: time stamps between the
 * pairs and beyond them, and a clock that drifts, is slewed and is set. */
#include "cupti/clock_map.h"

#include <check.h>
#include <math.h>
#include <unistd.h>
#include <string.h>

#include "writer/writer.h"

#define WALL UINT64_C(1750000000000000000) /* CLOCK_REALTIME in 2025, ns */

static struct cupti_clock map;

static void setup(void)
{
    memset(&map, 0, sizeof map);
}

static void near(uint64_t got, uint64_t expected, uint64_t most)
{
    uint64_t off = got > expected ? got - expected : expected - got;
    if (off > most)
        ck_abort_msg("%lu instead of %lu: off by %lu", (unsigned long)got, (unsigned long)expected,
                     (unsigned long)off);
}

START_TEST(returns_stamps_unchanged_without_a_pair)
{
    ck_assert_ptr_null(cupti_clock_last(&map));
    ck_assert_uint_eq(cupti_clock_ticks(&map, WALL), WALL);
}
END_TEST

START_TEST(extrapolates_one_pair_by_the_rate)
{
    cupti_clock_add(&map, WALL, 5000000);
    ck_assert_uint_eq(cupti_clock_ticks(&map, WALL), 5000000);
    near(cupti_clock_ticks(&map, WALL + 1000), 5001000, 0);
    map.rate = 2.5;
    near(cupti_clock_ticks(&map, WALL + 1000), 5002500, 1);
    near(cupti_clock_ticks(&map, WALL - 1000), 4997500, 1);
    ck_assert_uint_eq(cupti_clock_ticks(&map, 1), 0); /* never wraps below zero */
}
END_TEST

START_TEST(interpolates_between_two_pairs)
{
    cupti_clock_add(&map, WALL, 1000);
    cupti_clock_add(&map, WALL + 1000, 4000);
    cupti_clock_add(&map, WALL + 2000, 5000);
    static const struct {
        uint64_t cupti, ticks;
    } cases[] = {{0, 1000},
                 {1, 1003},
                 {500, 2500},
                 {999, 3997},
                 {1000, 4000},
                 /* here the slope changes */
                 {1001, 4001},
                 {1500, 4500},
                 {2000, 5000},
                 {2500, 6000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near(cupti_clock_ticks(&map, WALL + cases[i].cupti), cases[i].ticks, 0);
}
END_TEST

START_TEST(ignores_a_pair_that_is_not_later)
{
    cupti_clock_add(&map, WALL, 1000);
    cupti_clock_add(&map, WALL + 5, 1000);
    cupti_clock_add(&map, WALL + 5, 999);
    ck_assert_uint_eq(map.count, 1);
}
END_TEST

/* A 2.1 GHz counter against a wall clock that drifts by 50 ppm and is slewed by up to 500 ppm.
 * Pairs come every 25 ms with 40 ns of jitter. Stamps between them must be right to 150 ns, and
 * in order. */
START_TEST(follows_a_slewed_clock)
{
    enum { PAIRS = 6000 };
    static uint64_t at[PAIRS];
    double wall = 0;
    uint64_t before = 0;
    map.rate = 2.1;
    for (uint64_t i = 0; i < PAIRS; i++) {
        uint64_t jitter = i * 7919 % 40;
        at[i] = WALL + (uint64_t)wall + 20;
        cupti_clock_add(&map, WALL + (uint64_t)wall + jitter, 77000000 + i * 52500000);
        wall += 25e6 * (1 + 50e-6 + 450e-6 * sin((double)i / 200.0));
    }
    for (uint64_t i = 0; i + 1 < PAIRS; i++) {
        uint64_t got = cupti_clock_ticks(&map, at[i] + (at[i + 1] - at[i]) / 2);
        near(got, 77000000 + i * 52500000 + 26250000, 315);
        ck_assert_uint_gt(got, before);
        before = got;
    }
}
END_TEST

/* Pairs on a line are merged into one interval. Stamps are right within the pairs' jitter plus
 * the tolerance of the line. */
START_TEST(a_steady_clock_needs_few_pairs)
{
    map.rate = 2.1;
    for (uint64_t i = 0; i < 400000; i++) /* 100 seconds */
        cupti_clock_add(&map, WALL + i * 250000 + i * 7919 % 40, 1 + i * 525000);
    ck_assert_uint_lt(map.count, 100);
    for (uint64_t i = 0; i < 400000; i += 997)
        near(cupti_clock_ticks(&map, WALL + i * 250000 + 20), 1 + i * 525000, 200);
}
END_TEST

START_TEST(a_converted_stamp_never_changes)
{
    uint64_t told[100];
    for (unsigned i = 0; i <= 100; i++) {
        uint64_t at = i * 10000;
        cupti_clock_add(&map, WALL + at, 1000 + at + (i % 3 == 1 ? 40 : 0)); /* jitter */
        cupti_clock_keep(&map);
        for (unsigned k = 0; k < i; k++) {
            uint64_t ticks = cupti_clock_ticks(&map, WALL + k * 10000 + 5000);
            if (k + 1 == i)
                told[k] = ticks;
            ck_assert_uint_eq(ticks, told[k]);
        }
    }
}
END_TEST

/* If the rate changes by D between two pairs that are L apart, the error is at most L * D / 4 plus
 * the tolerance of the line. */
START_TEST(follows_a_sudden_change_of_rate)
{
    static const double ppm[] = {10, 100, 1000, 10000, 80000};
    for (size_t n = 0; n < sizeof ppm / sizeof *ppm; n++) {
        double bend = 100.6 * 250000, most = 250000 * ppm[n] / 1e6 / 4 + 51;
        setup();
        map.rate = 2.1;
        for (int i = 0; i < 200; i++) {
            double at = i * 250000.0, ahead = at > bend ? (at - bend) * ppm[n] / 1e6 : 0;
            cupti_clock_add(&map, WALL + (uint64_t)(at + ahead), 1000 + (uint64_t)(at * 2.1));
        }
        for (double at = 0; at < 199 * 250000.0; at += 4999) {
            double ahead = at > bend ? (at - bend) * ppm[n] / 1e6 : 0;
            near(cupti_clock_ticks(&map, WALL + (uint64_t)(at + ahead)),
                 1000 + (uint64_t)(at * 2.1), (uint64_t)(most * 2.1) + 3);
        }
    }
}
END_TEST

START_TEST(keeps_the_newest_pairs)
{
    uint64_t wall = WALL, at[CLOCK_PAIRS * 2];
    map.rate = 1;
    for (uint64_t i = 0; i < CLOCK_PAIRS * 2; i++, wall += i % 2 ? 1010000 : 990000) {
        at[i] = wall;
        cupti_clock_add(&map, wall, 1 + i * 1000000);
    }
    ck_assert_uint_eq(map.count, CLOCK_PAIRS);
    for (uint64_t i = CLOCK_PAIRS; i < CLOCK_PAIRS * 2; i++)
        near(cupti_clock_ticks(&map, at[i]), 1 + i * 1000000, 0);
    near(cupti_clock_ticks(&map, at[0]), 1, 20000); /* extrapolated by the oldest slope */
}
END_TEST

START_TEST(extrapolates_beyond_the_first_and_last_pair)
{
    for (uint64_t i = 0; i < 40; i++) /* the last reading's jitter must not tilt later times */
        cupti_clock_add(&map, WALL + i * 25000000 + (i == 39 ? 100 : 0), 1000000000 + i * 52500000);
    near(cupti_clock_ticks(&map, WALL + 39 * 25000000 + UINT64_C(1000000000)),
         1000000000 + 39 * UINT64_C(52500000) + 2100000000, 1000);
    near(cupti_clock_ticks(&map, WALL - 100000000), 1000000000 - 210000000, 1000);
    uint64_t last = 0;
    for (uint64_t t = 0; t < 100000000; t += 333333) {
        uint64_t got = cupti_clock_ticks(&map, WALL + 38 * UINT64_C(25000000) + t);
        ck_assert_uint_ge(got, last);
        last = got;
    }
}
END_TEST

/* The wall clock is set back by an hour. Time stamps from before and after keep their places. */
START_TEST(survives_a_clock_set_back)
{
    uint64_t hour = UINT64_C(3600000000000);
    for (uint64_t i = 0; i < 20; i++)
        cupti_clock_add(&map, WALL + i * 25000000 - (i >= 10 ? hour : 0), i * 25000000 + 1);
    near(cupti_clock_ticks(&map, WALL + 5 * 25000000 + 10000000), 5 * 25000000 + 10000001, 1);
    near(cupti_clock_ticks(&map, WALL - hour + 15 * 25000000 + 10000000), 15 * 25000000 + 10000001,
         1);
    /* after the last pair before the step */
    near(cupti_clock_ticks(&map, WALL + 9 * 25000000 + 10000000), 9 * 25000000 + 10000001, 1000);
}
END_TEST

START_TEST(survives_a_clock_set_forward)
{
    uint64_t hour = UINT64_C(3600000000000);
    for (uint64_t i = 0; i < 20; i++)
        cupti_clock_add(&map, WALL + i * 25000000 + (i >= 10 ? hour : 0), i * 25000000 + 1);
    near(cupti_clock_ticks(&map, WALL + 5 * 25000000), 5 * 25000000 + 1, 1);
    near(cupti_clock_ticks(&map, WALL + hour + 15 * 25000000), 15 * 25000000 + 1, 1);
}
END_TEST

/* The clock is set midway between two pairs that are 10 ms apart. Time stamps from before are
 * converted by the first pair and those from after by the second, even while the clock repeats
 * earlier times. A time stamp that fits both sides counts as later. */
START_TEST(is_exact_beside_a_clock_step)
{
    static const int64_t steps[] = {-3600000000000, -500000000, 500000000, 3600000000000};
    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        setup();
        map.rate = 2.1;
        for (int64_t i = 0; i < 20; i++)
            cupti_clock_add(&map, WALL + (uint64_t)(i * 10000000 + (i >= 10 ? steps[n] : 0)),
                            1000 + (uint64_t)i * 21000000);
        for (int64_t at = 0; at < 190000000; at += 777777) {
            int64_t stamp = at + (at >= 95000000 ? steps[n] : 0);
            near(cupti_clock_ticks(&map, WALL + (uint64_t)stamp),
                 1000 + (uint64_t)((double)at * 2.1), 3);
        }
    }
    setup();
    map.rate = 2.1;
    for (int64_t i = 0; i < 20; i++)
        cupti_clock_add(&map, WALL + (uint64_t)(i * 10000000 - (i >= 10 ? 50000000 : 0)),
                        1000 + (uint64_t)i * 21000000);
    near(cupti_clock_ticks(&map, WALL + 75000000), 1000 + UINT64_C(262500000), 3);
}
END_TEST

static int calls, answer;

static int wall_now(uint64_t *now)
{
    calls++;
    *now = (uint64_t)clock_wall_now();
    return answer;
}

/* Takes a reading and adds it to the map. */
static void take_reading(int (*now)(uint64_t *))
{
    struct clock_pair own;
    if (cupti_clock_read(&map, now, &own))
        cupti_clock_add(&map, own.cupti, own.ticks);
}

START_TEST(reads_real_clocks)
{
    clock_start();
    for (int i = 0; i < 5; i++) {
        take_reading(wall_now);
        usleep(2000);
    }
    ck_assert_uint_ge(map.count, 2);
    ck_assert_int_gt(calls, 5); /* the best of several readings */
    uint64_t last = cupti_clock_last(&map)->ticks;
    uint64_t before = clock_ticks();
    uint64_t stamp = (uint64_t)clock_wall_now();
    uint64_t after = clock_ticks();
    uint64_t got = cupti_clock_ticks(&map, stamp);
    near(got, before + (after - before) / 2, (after - before) + 3000000);
    answer = 999;
    take_reading(wall_now);
    ck_assert_uint_eq(cupti_clock_last(&map)->ticks, last);
}
END_TEST

static int delayed; /* number of readings that will be delayed */

static int delayed_now(uint64_t *now)
{
    uint64_t until = clock_monotonic_ns() + 200000;
    *now = (uint64_t)clock_wall_now();
    calls++;
    while (delayed > 0 && clock_monotonic_ns() < until)
        ;
    delayed -= delayed > 0;
    return 0;
}

/* A delayed reading would be wrong by half of its 200 us. */
START_TEST(repeats_a_delayed_reading)
{
    clock_start();
    take_reading(delayed_now);
    delayed = 12;
    calls = 0;
    take_reading(delayed_now);
    ck_assert_int_gt(calls, 12);
    ck_assert_uint_eq(map.count, 2);
    delayed = 1000;
    calls = 0;
    take_reading(delayed_now); /* gives up at 100 tries */
    ck_assert_int_eq(calls, 100);
    ck_assert_uint_eq(map.count, 3);
}
END_TEST

Suite *suite_clock_map(void)
{
    Suite *s = suite_create("clock_map");
    TCase *c = tcase_create("map");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, repeats_a_delayed_reading);
    tcase_add_test(c, returns_stamps_unchanged_without_a_pair);
    tcase_add_test(c, extrapolates_one_pair_by_the_rate);
    tcase_add_test(c, interpolates_between_two_pairs);
    tcase_add_test(c, a_converted_stamp_never_changes);
    tcase_add_test(c, ignores_a_pair_that_is_not_later);
    tcase_add_test(c, follows_a_slewed_clock);
    tcase_add_test(c, a_steady_clock_needs_few_pairs);
    tcase_add_test(c, follows_a_sudden_change_of_rate);
    tcase_add_test(c, keeps_the_newest_pairs);
    tcase_add_test(c, is_exact_beside_a_clock_step);
    tcase_add_test(c, extrapolates_beyond_the_first_and_last_pair);
    tcase_add_test(c, survives_a_clock_set_back);
    tcase_add_test(c, survives_a_clock_set_forward);
    tcase_add_test(c, reads_real_clocks);
    suite_add_tcase(s, c);
    return s;
}
