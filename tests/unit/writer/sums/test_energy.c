/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/energy.h: interpolation at the edges of steps, gaps, and readings that are
 * not there (yet). */
#include "writer/base/base.h"
#include "writer/sums/energy.h"
#include "writer/writer.h"

#include <check.h>

#define DEVICE 3u

static uint64_t begun; /* ticks */
static struct energy_since since;

/* Ticks so many ms after the start of the test. */
static uint64_t at(double ms)
{
    return begun + (uint64_t)(ms * clock_ticks_per_second() / 1e3);
}

static void reading(double ms, double joules)
{
    struct gpu_state s = {.ticks = at(ms),
                          .device = DEVICE,
                          .known = UINT32_C(1) << GPU_ENERGY,
                          .joules = joules,
                          .is_counted = true};
    energy_add(&s);
}

static void setup(void)
{
    clock_start();
    begun = clock_ticks();
    since = (struct energy_since){0};
}

START_TEST(interpolates_at_both_edges)
{
    reading(0, 1000);
    energy_begin(&since, DEVICE, at(25), 7);
    energy_begin(&since, DEVICE, at(50), 8);
    ck_assert_uint_eq(energy_spent(&since, DEVICE, at(60), 7).steps, 0); /* no reading behind it */
    reading(100, 1040);
    reading(200, 1060);
    struct energy_use use = energy_spent(&since, DEVICE, at(150), 10);
    ck_assert_uint_eq(use.steps, 4);
    ck_assert(use.is_counted);
    ck_assert_double_eq_tol(use.joules, 1050 - 1010, 0.01);
}
END_TEST

START_TEST(a_step_before_the_first_reading_does_not_count)
{
    energy_begin(&since, DEVICE, at(10), 1);
    reading(50, 5);
    energy_begin(&since, DEVICE, at(20), 2);
    energy_begin(&since, DEVICE, at(75), 3);
    reading(150, 15);
    reading(250, 25);
    struct energy_use use = energy_spent(&since, DEVICE, at(200), 3);
    ck_assert_uint_eq(use.steps, 1);
    ck_assert_double_eq_tol(use.joules, 20 - 7.5, 0.01);
    ck_assert_uint_eq(energy_spent(&since, DEVICE, at(200), 2).steps, 0); /* no whole step yet */
}
END_TEST

/* Between two windows the GPU is not read. Nothing is known of that time. */
START_TEST(does_not_join_readings_across_a_gap)
{
    reading(0, 0);
    reading(100, 10);
    reading(5000, 1000);
    energy_begin(&since, DEVICE, at(4990), 1);
    ck_assert_uint_eq(since.ticks, 0);
    energy_begin(&since, DEVICE, at(5010), 2);
    reading(5100, 1010);
    ck_assert_double_eq_tol(energy_spent(&since, DEVICE, at(5050), 2).joules, 4, 0.01);
}
END_TEST

START_TEST(a_counter_that_falls_begins_anew)
{
    reading(0, 1e9);
    energy_begin(&since, DEVICE, at(10), 1);
    reading(100, 5);
    reading(200, 15);
    ck_assert_uint_eq(energy_spent(&since, DEVICE, at(150), 1).steps, 0);
}
END_TEST

/* The start was found while its readings were there. */
START_TEST(long_windows_keep_their_start)
{
    reading(0, 0);
    energy_begin(&since, DEVICE, at(50), 1);
    for (int i = 1; i < 2000; i++) {
        reading(i * 100, i * 10);
        if (i % 100 == 1)
            energy_spent(&since, DEVICE, at(i * 100 - 20), i);
    }
    struct energy_use use = energy_spent(&since, DEVICE, at(199850), 1000);
    ck_assert_double_eq_tol(use.joules, 19985 - 5, 0.1);
    struct energy_since late = {.ticks = at(50), .step = 1}; /* nobody asked in time */
    ck_assert_uint_eq(energy_spent(&late, DEVICE, at(199850), 1000).steps, 0);
}
END_TEST

Suite *suite_energy(void)
{
    Suite *suite = suite_create("energy");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, NULL);
    tcase_add_test(all, interpolates_at_both_edges);
    tcase_add_test(all, a_step_before_the_first_reading_does_not_count);
    tcase_add_test(all, does_not_join_readings_across_a_gap);
    tcase_add_test(all, a_counter_that_falls_begins_anew);
    tcase_add_test(all, long_windows_keep_their_start);
    suite_add_tcase(suite, all);
    return suite;
}
