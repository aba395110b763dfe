/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/base/clock.h: the map from ticks to wall clock under simulated clocks that
 * drift, step, jitter and are slewed, and under the machine's real clock. */
#include "writer/base/clock.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/alloc.h"

#define MS   INT64_C(1000000)
#define SEC  INT64_C(1000000000)
#define HOUR (3600 * SEC)
#define WALL INT64_C(1790000000000000000) /* wall clock in 2026, ns */

/* A machine with a 2.1 GHz counter. The test moves its monotonic and wall clocks. */
static struct {
    uint64_t ticks, mono_ns;
    int64_t wall_ns;
    double mono, wall; /* in ns, with fractions */
    double slew;       /* of both clocks: 500e-6 is 500 ppm */
} sim;

static struct clock_map map;

static void sim_pass(int64_t ns)
{
    sim.ticks += (uint64_t)((double)ns * 2.1);
    double passed = (double)ns * (1 + sim.slew);
    sim.mono += passed;
    sim.wall += passed;
    sim.mono_ns += (uint64_t)sim.mono;
    sim.wall_ns += (int64_t)sim.wall;
    sim.mono -= floor(sim.mono);
    sim.wall -= floor(sim.wall);
}

static void setup(void)
{
    sim.ticks = 123456789012345;
    sim.mono_ns = 987 * SEC;
    sim.wall_ns = WALL;
    clock_map_start(&map, sim.ticks, sim.mono_ns);
    sim_pass(2 * MS);
}

static void teardown(void)
{
    clock_map_free(&map);
}

static void add_knot(void)
{
    ck_assert(clock_map_add(&map, sim.ticks, sim.wall_ns, sim.mono_ns));
}

static int64_t map_error(void)
{
    return clock_map_ns(&map, sim.ticks) - sim.wall_ns;
}

/* Adds n knots, one per period. */
static void add_knots(unsigned n, int64_t period)
{
    while (n-- > 0) {
        sim_pass(period);
        add_knot();
    }
}

/* Fails if the map jumps or goes back between two ticks, or if its speed exceeds the limit. */
static void check_smooth(uint64_t from, uint64_t to, unsigned points)
{
    uint64_t step = (to - from) / points;
    int64_t before = clock_map_ns(&map, from);
    for (uint64_t at = from + step; at <= to; at += step) {
        int64_t now = clock_map_ns(&map, at);
        double speed = (double)(now - before) / ((double)step / 2.1);
        if (speed < 0.49 || speed > 1.51)
            ck_abort_msg("the map runs at %.3f times the speed of time at tick %lu", speed,
                         (unsigned long)at);
        before = now;
    }
}

START_TEST(extrapolates_from_one_knot)
{
    /* without knots, the ticks themselves */
    ck_assert_int_eq(clock_map_ns(&(struct clock_map){0}, 5), 5);
    add_knot();
    ck_assert_int_eq(map_error(), 0);
    uint64_t ticks = sim.ticks;
    sim_pass(10 * MS);
    ck_assert_int_le(llabs(map_error()), 100);
    ck_assert_int_le(llabs(clock_map_ns(&map, ticks - 21000) - (WALL + 2 * MS - 10000)), 1);
}
END_TEST

START_TEST(map_is_continuous_and_monotone)
{
    uint64_t from = sim.ticks;
    srand(3);
    for (unsigned i = 0; i < 300; i++) {
        sim.slew = (rand() % 1000 - 500) * 1e-6;
        add_knots(1, (1 + rand() % 400) * MS);
        if (rand() % 20 == 0)
            sim.wall_ns += (rand() % 2000 - 1000) * MS; /* also steps of up to a second */
    }
    check_smooth(from, sim.ticks + 2100000000, 200000);
    for (unsigned i = 0; i < map.count; i++) { /* also at the knots */
        const struct clock_knot *k = &map.knots[(map.first + i) % map.cap];
        int64_t left = clock_map_ns(&map, k->ticks - 1), right = clock_map_ns(&map, k->ticks);
        if (left > right || right - left > 2)
            ck_abort_msg("knot %u: from %ld to %ld", i, (long)left, (long)right);
    }
}
END_TEST

START_TEST(later_knots_keep_earlier_times)
{
    uint64_t ticks[400];
    int64_t ns[400];
    sim.slew = 100e-6;
    for (unsigned i = 0; i < 400; i++) {
        add_knots(1, 250 * MS);
        ticks[i] = sim.ticks;
        ns[i] = clock_map_ns(&map, sim.ticks);
        sim.wall_ns += i % 50 == 0 ? 30 * MS : 0;
    }
    for (unsigned i = 0; i < 400; i++)
        ck_assert_int_eq(clock_map_ns(&map, ticks[i]), ns[i]);
}
END_TEST

START_TEST(follows_a_slewed_wall_clock)
{
    add_knot();
    add_knots(100, 10 * MS); /* a young cprof thread adds knots often */
    add_knots(40, 250 * MS);
    static const double slews[] = {500e-6, -500e-6, 0, 100e-6};
    for (unsigned i = 0; i < 4; i++) {
        sim.slew = slews[i]; /* begins between two knots */
        sim_pass(125 * MS);
        add_knots(4, 250 * MS);
        for (unsigned k = 0; k < 40; k++) {
            sim_pass(125 * MS); /* beyond the newest knot */
            ck_assert_int_le(llabs(map_error()), 1000);
            add_knots(1, 125 * MS);
            ck_assert_int_le(llabs(map_error()), 1000);
        }
    }
}
END_TEST

START_TEST(does_not_amplify_sample_jitter)
{
    srand(5);
    add_knot();
    for (unsigned i = 0; i < 400; i++) {
        sim_pass(i < 100 ? 10 * MS : 250 * MS);
        int64_t off = rand() % 101 - 50;
        clock_map_add(&map, sim.ticks, sim.wall_ns + off, sim.mono_ns + (uint64_t)off);
        if (i > 100)
            ck_assert_int_le(llabs(map_error()), 500);
    }
}
END_TEST

START_TEST(clock_step_changes_no_duration)
{
    static const int64_t steps[] = {HOUR, -HOUR, 100 * MS, -100 * MS, MS / 2};
    add_knots(20, 250 * MS);
    sim.wall_ns += steps[_i];
    uint64_t from = sim.ticks;
    int64_t before = clock_map_ns(&map, from);
    for (unsigned n = 1; n <= 400; n++) {
        add_knots(1, 10 * MS);
        ck_assert_int_le(llabs(clock_map_ns(&map, sim.ticks) - before - n * 10 * MS), 100);
    }
    ck_assert_int_eq(map.set_ns, steps[_i]);
    sim.slew = 100e-6; /* slew is followed as before */
    add_knots(40, 250 * MS);
    ck_assert_int_le(llabs(map_error() + steps[_i]), 50000);
}
END_TEST

static void settle(void)
{
    ck_assert(clock_map_settle(&map, sim.ticks, sim.wall_ns, sim.mono_ns));
}

START_TEST(adopts_a_clock_step_between_windows)
{
    static const int64_t steps[] = {HOUR, -HOUR, 2 * MS, -2 * MS};
    add_knots(8, 250 * MS);
    for (unsigned i = 0; i < 4; i++) {
        sim.wall_ns += steps[i];
        sim_pass(10 * MS);
        settle();
        ck_assert_int_le(llabs(map_error()), 1);
        sim_pass(10 * SEC); /* the slope is the wall clock's: a step plans no bend */
        ck_assert_int_le(llabs(map_error()), 1000);
        settle();
    }
}
END_TEST

/* While the machine is suspended the counter runs and CLOCK_MONOTONIC stands still. The next
 * window's times must be right from its first step on. */
START_TEST(times_are_right_after_suspend)
{
    add_knots(20, 250 * MS);
    sim.ticks += (uint64_t)(8 * HOUR * 2.1);
    sim.wall_ns += 8 * HOUR;
    sim_pass(10 * MS);
    settle();
    uint64_t from = sim.ticks;
    int64_t before = clock_map_ns(&map, from);
    ck_assert_int_le(llabs(map_error()), 1);
    for (unsigned n = 1; n <= 100; n++) {
        add_knots(1, 10 * MS);
        ck_assert_int_le(llabs(clock_map_ns(&map, sim.ticks) - before - n * 10 * MS), 1000);
    }
}
END_TEST

START_TEST(ignores_a_small_error_between_windows)
{
    add_knots(8, 250 * MS);
    int64_t before = clock_map_ns(&map, sim.ticks);
    sim.wall_ns += MS / 2;
    settle();
    ck_assert_int_le(llabs(clock_map_ns(&map, sim.ticks) - before), 1);
}
END_TEST

START_TEST(new_knot_replaces_the_planned_bend_end)
{
    add_knots(4, 250 * MS);
    add_knots(50, 10 * MS); /* each knot comes before the previous bend has ended */
    unsigned count = map.count;
    add_knots(1, 10 * MS);
    ck_assert_uint_eq(map.count, count + 1); /* a knot and an end replace an end */
    add_knots(1, 300 * MS);
    ck_assert_uint_eq(map.count, count + 3); /* the previous end was reached */
    uint64_t last = 0;
    for (unsigned i = 0; i < map.count; i++) {
        const struct clock_knot *k = &map.knots[(map.first + i) % map.cap];
        ck_assert_uint_gt(k->ticks, last);
        last = k->ticks;
    }
}
END_TEST

START_TEST(repeated_sample_keeps_earlier_times)
{
    add_knots(10, 250 * MS);
    uint64_t ticks = sim.ticks;
    int64_t ns = clock_map_ns(&map, ticks);
    ck_assert(clock_map_add(&map, ticks, sim.wall_ns, sim.mono_ns)); /* the same sample again */
    ck_assert_int_eq(clock_map_ns(&map, ticks), ns);
    check_smooth(ticks - 2100000000, ticks + 2100000000, 10000);
    sim_pass(250 * MS);
    add_knot();
    ck_assert_int_le(llabs(map_error()), 1000);
}
END_TEST

START_TEST(drops_the_oldest_knots)
{
    add_knots(1, 250 * MS);
    uint64_t early = sim.ticks;
    int64_t ns = clock_map_ns(&map, early);
    add_knots(5000, 300 * MS); /* two knots each */
    ck_assert_uint_eq(map.count, map.cap);
    ck_assert_int_le(llabs(map_error()), 1000);
    const struct clock_knot *oldest = &map.knots[map.first];
    ck_assert_uint_gt(oldest->ticks, early);
    ck_assert_int_le(llabs(clock_map_ns(&map, early) - ns), 100000); /* by the oldest slope */
    check_smooth(oldest->ticks - 2100000000, sim.ticks, 100000);
}
END_TEST

START_TEST(recovers_after_an_hour_without_knots)
{
    add_knot();
    add_knots(100, 10 * MS);
    add_knots(8, 250 * MS);
    sim.slew = 1e-6; /* the frequency has drifted meanwhile */
    sim_pass(HOUR);
    add_knot();
    ck_assert_int_le(llabs(map_error()), 5 * MS);
    add_knots(5, 250 * MS);
    ck_assert_int_le(llabs(map_error()), 1000);
}
END_TEST

START_TEST(keeps_the_slope_without_memory)
{
    if (!alloc_is_ours)
        return;
    alloc_fail_from(4096);
    bool added = clock_map_add(&map, sim.ticks, sim.wall_ns, sim.mono_ns);
    alloc_fail_from(0);
    ck_assert(!added);
    add_knot();
    ck_assert_int_eq(map_error(), 0);
}
END_TEST

START_TEST(base_is_the_floor_to_30_days)
{
    int64_t days = 30 * 24 * HOUR;
    ck_assert_int_eq(clock_base_ns(0), 0);
    ck_assert_int_eq(clock_base_ns(days - 1), 0);
    ck_assert_int_eq(clock_base_ns(days), days);
    ck_assert_int_eq(clock_base_ns(WALL) % days, 0);
    ck_assert_int_lt(WALL - clock_base_ns(WALL), days);
}
END_TEST

/* ---- the machine's real clock ---- */

START_TEST(follows_the_real_clock)
{
    clock_start();
    usleep(2000);
    clock_knot();
    int64_t worst = 0;
    for (unsigned i = 0; i < 60; i++) {
        usleep(10000);
        uint64_t best = UINT64_MAX;
        int64_t off = 0;
        for (unsigned k = 0; k < 20; k++) { /* keeps the least disturbed of 20 tries */
            uint64_t before = clock_ticks();
            int64_t wall = clock_wall_now();
            uint64_t after = clock_ticks();
            if (after - before < best) {
                best = after - before;
                off = clock_wall_ns(before + (after - before) / 2) - wall;
            }
        }
        clock_knot();
        worst = llabs(off) > worst && i > 10 ? llabs(off) : worst;
    }
    ck_assert_int_lt(worst, 50000); /* 1 us on a quiet machine */
    uint64_t mono = clock_monotonic_ns(), ticks = clock_ticks();
    usleep(50000);
    double seconds = (double)(clock_ticks() - ticks) / clock_ticks_per_second();
    ck_assert_double_eq_tol(seconds, (double)(clock_monotonic_ns() - mono) / 1e9, 0.01);
}
END_TEST

START_TEST(ticks_never_go_back)
{
    clock_start();
    uint64_t last = clock_ticks();
    for (unsigned i = 0; i < 1000000; i++) {
        uint64_t now = clock_ticks();
        if (now < last)
            ck_abort_msg("%lu after %lu", (unsigned long)now, (unsigned long)last);
        last = now;
    }
}
END_TEST

Suite *suite_clock(void)
{
    Suite *suite = suite_create("clock");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, extrapolates_from_one_knot);
    tcase_add_test(all, map_is_continuous_and_monotone);
    tcase_add_test(all, later_knots_keep_earlier_times);
    tcase_add_test(all, follows_a_slewed_wall_clock);
    tcase_add_test(all, does_not_amplify_sample_jitter);
    tcase_add_loop_test(all, clock_step_changes_no_duration, 0, 5);
    tcase_add_test(all, times_are_right_after_suspend);
    tcase_add_test(all, adopts_a_clock_step_between_windows);
    tcase_add_test(all, ignores_a_small_error_between_windows);
    tcase_add_test(all, new_knot_replaces_the_planned_bend_end);
    tcase_add_test(all, repeated_sample_keeps_earlier_times);
    tcase_add_test(all, drops_the_oldest_knots);
    tcase_add_test(all, recovers_after_an_hour_without_knots);
    tcase_add_test(all, keeps_the_slope_without_memory);
    tcase_add_test(all, base_is_the_floor_to_30_days);
    tcase_add_test(all, follows_the_real_clock);
    tcase_add_test(all, ticks_never_go_back);
    suite_add_tcase(suite, all);
    return suite;
}
