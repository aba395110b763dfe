/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/schedule.h with torch's test vectors and Composer's arithmetic. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/settings/config.h"
#include "preload/settings/demands.h"
#include "preload/settings/schedule.h"

Suite *suite_schedule(void);

/* One letter per step from 0: skip, warmup, active, active and save. */
static void expect(const struct schedule *schedule, const char *letters)
{
    for (int64_t step = 0; letters[step]; step++) {
        char letter = "-waS"[schedule_action(schedule, step)];
        ck_assert_msg(letter == letters[step], "step %d: %c, not %c in %s", (int)step, letter,
                      letters[step], letters);
    }
}

START_TEST(follows_torchs_schedule)
{
    struct schedule s = {.skip_first = 10, .wait = 1, .warmup = 1, .active = 3, .repeat = 2};
    expect(&s, "-----------waaS-waaS----------");
    /* wait, warmup, active (12 to 14), wait, warmup, active (17 to 19), nothing from 20 */
    ck_assert_int_eq(schedule_action(&s, 10), ACTION_SKIP);
    ck_assert_int_eq(schedule_action(&s, 11), ACTION_WARMUP);
    ck_assert_int_eq(schedule_action(&s, 12), ACTION_ACTIVE);
    ck_assert_int_eq(schedule_action(&s, 14), ACTION_ACTIVE_AND_SAVE);
    ck_assert_int_eq(schedule_action(&s, 19), ACTION_ACTIVE_AND_SAVE);
    ck_assert_int_eq(schedule_action(&s, 20), ACTION_SKIP);
}
END_TEST

START_TEST(follows_torchs_schedule_without_first_wait)
{
    struct schedule s = {.skip_first = 10,
                         .wait = 1,
                         .warmup = 1,
                         .active = 3,
                         .repeat = 2,
                         .skip_first_wait = true};
    /* 10 warmup, 11 to 13 active, 14 wait, 15 warmup, 16 to 18 active, nothing from 19 */
    expect(&s, "----------waaS-waaS-----------");
}
END_TEST

START_TEST(saves_every_step)
{
    struct schedule s = {.active = 1};
    expect(&s, "SSSSSSSSSSSS");
    s.repeat = 3;
    expect(&s, "SSS---------");
}
END_TEST

START_TEST(waits_warms_up_and_records_once)
{
    struct schedule s = {.wait = 2, .warmup = 2, .active = 6, .repeat = 1};
    expect(&s, "--wwaaa");
    expect(&s, "--wwaaaaaS----");
}
END_TEST

START_TEST(follows_composers_default_schedule)
{
    struct schedule s = {.warmup = 1, .active = 4, .repeat = 1};
    expect(&s, "waaaS-----------");
}
END_TEST

START_TEST(repeat_zero_never_ends)
{
    struct schedule s = {.wait = 1, .warmup = 1, .active = 2};
    for (int64_t cycle = 0; cycle < 5; cycle++)
        ck_assert_int_eq(schedule_action(&s, 4 * cycle + 3), ACTION_ACTIVE_AND_SAVE);
    ck_assert_int_eq(schedule_action(&s, INT64_C(4000000000000000003)), ACTION_ACTIVE_AND_SAVE);
    ck_assert_int_eq(schedule_action(&s, INT64_C(4000000000000000000)), ACTION_SKIP);
    ck_assert_int_eq(schedule_action(&s, INT64_MAX), ACTION_ACTIVE_AND_SAVE); /* 2^63-1 mod 4 = 3 */
}
END_TEST

START_TEST(records_at_once_without_wait_and_warmup)
{
    struct schedule s = {.active = 3, .repeat = 2, .skip_first_wait = true};
    expect(&s, "aaSaaS----");
}
END_TEST

START_TEST(huge_counts_do_not_overflow)
{
    struct schedule s = {.skip_first = INT64_MAX,
                         .wait = INT64_MAX,
                         .warmup = INT64_MAX,
                         .active = INT64_MAX,
                         .repeat = INT64_MAX,
                         .skip_first_wait = true};
    ck_assert_int_eq(schedule_action(&s, INT64_MAX - 1), ACTION_SKIP);
    /* the first cycle has no wait */
    ck_assert_int_eq(schedule_action(&s, INT64_MAX), ACTION_WARMUP);
    s.skip_first = 0;
    ck_assert_int_eq(schedule_action(&s, INT64_MAX), ACTION_ACTIVE);
    s.skip_first_wait = false;
    ck_assert_int_eq(schedule_action(&s, INT64_MAX), ACTION_WARMUP);
    s.wait = s.warmup = 0;
    ck_assert_int_eq(schedule_action(&s, INT64_MAX - 1), ACTION_ACTIVE_AND_SAVE);
    char text[64];
    s.skip_first = s.warmup = INT64_MAX;
    ck_assert_uint_gt(schedule_describe(&s, text, sizeof text), 0);
}
END_TEST

START_TEST(skips_steps_of_invalid_schedules)
{
    struct schedule s = {.active = 0};
    ck_assert(!schedule_is_valid(&s));
    ck_assert_int_eq(schedule_action(&s, 0), ACTION_SKIP);
    s = (struct schedule){.active = 1, .warmup = -1};
    ck_assert(!schedule_is_valid(&s));
    ck_assert_int_eq(schedule_action(&s, 0), ACTION_SKIP);
    s = (struct schedule){.active = 1};
    ck_assert(schedule_is_valid(&s));
    ck_assert_int_eq(schedule_action(&s, -1), ACTION_SKIP);
    ck_assert_int_eq(schedule_action(&s, INT64_MIN), ACTION_SKIP);
}
END_TEST

START_TEST(scope_none_is_always_active)
{
    struct schedule s = {.wait = 5, .active = 1, .scope = SCHEDULE_NONE};
    expect(&s, "aaaaaaaaaa");
    ck_assert_int_eq(schedule_action(&s, -1), ACTION_ACTIVE);
    ck_assert_int_eq(schedule_action_in_epoch(&s, 3, true), ACTION_ACTIVE);
}
END_TEST

/* Composer's cyclic_schedule() by its own definition, on one epoch of a given length. */
static enum action composer(const struct schedule *s, int64_t batch, int64_t epoch_length)
{
    int64_t cycle = s->wait + s->warmup + s->active;
    if (batch < s->skip_first)
        return ACTION_SKIP;
    if (s->repeat != 0 && batch >= cycle * s->repeat + s->skip_first)
        return ACTION_SKIP;
    int64_t position = (batch - s->skip_first) % cycle;
    if (position < s->wait)
        return ACTION_SKIP;
    if (position < s->wait + s->warmup)
        return ACTION_WARMUP;
    return position == cycle - 1 || batch == epoch_length - 1 ? ACTION_ACTIVE_AND_SAVE
                                                              : ACTION_ACTIVE;
}

START_TEST(each_epoch_follows_composers_schedule)
{
    for (int repeat = 0; repeat < 3; repeat++) {
        struct schedule s = {.skip_first = 1,
                             .wait = 2,
                             .warmup = 3,
                             .active = 4,
                             .repeat = repeat,
                             .scope = SCHEDULE_EPOCH};
        for (int64_t length = 1; length < 30; length++)
            for (int64_t batch = 0; batch < length; batch++)
                ck_assert_int_eq(schedule_action_in_epoch(&s, batch, batch == length - 1),
                                 composer(&s, batch, length));
    }
}
END_TEST

START_TEST(epoch_end_saves_only_active_steps)
{
    struct schedule s = {.wait = 1, .warmup = 1, .active = 3, .scope = SCHEDULE_EPOCH};
    ck_assert_int_eq(schedule_action_in_epoch(&s, 0, true), ACTION_SKIP);
    ck_assert_int_eq(schedule_action_in_epoch(&s, 1, true), ACTION_WARMUP);
    ck_assert_int_eq(schedule_action_in_epoch(&s, 2, true), ACTION_ACTIVE_AND_SAVE);
    ck_assert_int_eq(schedule_action_in_epoch(&s, 2, false), ACTION_ACTIVE);
    ck_assert_int_eq(schedule_action_in_epoch(&s, 4, true), ACTION_ACTIVE_AND_SAVE);
    ck_assert_int_eq(schedule_action_in_epoch(&s, -3, true), ACTION_SKIP);
}
END_TEST

START_TEST(scope_values_match_the_setting)
{
    /* "run|epoch|none" in config.def and the enum have the same order. */
    static const struct {
        const char *text;
        enum schedule_scope scope;
    } rows[] = {{"run", SCHEDULE_RUN}, {"epoch", SCHEDULE_EPOCH}, {"none", SCHEDULE_NONE}};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(setenv("CPROF_SCHEDULE_SCOPE", rows[i].text, 1), 0);
        config_capture();
        ck_assert_int_eq(config_get()->schedule_scope, rows[i].scope);
    }
    unsetenv("CPROF_SCHEDULE_SCOPE");
}
END_TEST

START_TEST(describes_schedules_in_one_line)
{
    char text[200];
    struct schedule s = {.skip_first = 10, .wait = 1, .warmup = 1, .active = 3, .repeat = 2};
    size_t length = schedule_describe(&s, text, sizeof text);
    ck_assert_str_eq(text, "skip 10 steps, then 2 times: wait 1, warm up 1, record 3; "
                           "steps 12 to 14 are recorded first");
    ck_assert_uint_eq(length, strlen(text));
    s = (struct schedule){.wait = 2, .active = 1, .skip_first_wait = true, .scope = SCHEDULE_EPOCH};
    schedule_describe(&s, text, sizeof text);
    ck_assert_str_eq(text, "in each epoch: for ever: wait 2 (not the first time), warm up 0, "
                           "record 1; batches 0 to 0 are recorded first");
    s.scope = SCHEDULE_NONE;
    schedule_describe(&s, text, sizeof text);
    ck_assert_str_eq(text, "record from start to exit");
    s = (struct schedule){.active = 0};
    schedule_describe(&s, text, sizeof text);
    ck_assert_str_eq(text, "not a schedule");

    s = (struct schedule){.active = 1, .repeat = 1};
    memset(text, 'x', sizeof text);
    ck_assert_uint_eq(schedule_describe(&s, text, 10), 9);
    ck_assert_str_eq(text, "1 time: w");
    ck_assert_int_eq(text[10], 'x');
    ck_assert_uint_eq(schedule_describe(&s, text, 1), 0);
    ck_assert_uint_eq(schedule_describe(&s, text, 0), 0);
}
END_TEST

/* ---- preload/settings/demands.h ---- */

START_TEST(merges_adjacent_and_nested_demands)
{
    struct demands d = {0};
    ck_assert(!demands_cover(&d, 0));
    ck_assert(demands_add(&d, 10, 3)); /* 10 to 12 */
    ck_assert(demands_add(&d, 13, 1)); /* follows */
    ck_assert(demands_add(&d, 5, 2));
    ck_assert(demands_add(&d, 11, 1)); /* inside */
    static const bool wanted[] = {0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0};
    for (int64_t step = 0; step < 15; step++) {
        demands_forget(&d, step);
        ck_assert_int_eq(demands_cover(&d, step), wanted[step]);
    }
    ck_assert_uint_eq(d.n, 0);
}
END_TEST

START_TEST(keeps_overlapping_demands_in_one_place)
{
    struct demands d = {0};
    for (int64_t step = 0; step < 10 * DEMANDS_MOST; step++) {
        demands_forget(&d, step);
        ck_assert(demands_add(&d, step + 1, 1000 - step % 2 * 500));
        ck_assert_uint_eq(d.n, 1);
    }
    ck_assert(demands_cover(&d, 10 * DEMANDS_MOST + 900) &&
              !demands_cover(&d, 10 * DEMANDS_MOST + 1000));
    ck_assert(demands_add(&d, DEMANDS_STEP, 1)); /* a separate request */
}
END_TEST

START_TEST(rejects_more_demands_than_places)
{
    struct demands d = {0};
    for (unsigned i = 0; i < DEMANDS_MOST; i++)
        ck_assert(demands_add(&d, DEMANDS_STEP - 2 * (int64_t)i, 1));
    ck_assert(!demands_add(&d, 1, 1));
    ck_assert(!demands_cover(&d, 1) && demands_cover(&d, DEMANDS_STEP));
    demands_forget(&d, INT64_MAX - 1);
    ck_assert(demands_add(&d, 1, 1));
}
END_TEST

START_TEST(records_named_steps)
{
    struct step_ranges named;
    struct schedule s = {.named = &named};
    char why[128], text[128];
    ck_assert(step_ranges_parse(" 3-5 , 6,9 - 10,12", &named, why, sizeof why));
    expect(&s, "--waaSS-waSwS--");
    schedule_describe(&s, text, sizeof text);
    ck_assert_str_eq(text, "record steps 3 to 5, 6, 9 to 10, 12");
    ck_assert(step_ranges_parse("0", &named, why, sizeof why));
    expect(&s, "S---");
    ck_assert(step_ranges_parse(" ", &named, why, sizeof why) && named.n == 0);
}
END_TEST

START_TEST(rejects_invalid_step_ranges)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"5-3", "5-3 ends before it begins"},
        {"3-5,5", "steps must ascend, but 5 follows 5"},
        {"8,3", "steps must ascend, but 3 follows 8"},
        {"3-5,", "must be steps from 0 to 2147483647, as 10 or 10-13 or 10-13,50-53"},
        {",3", "must be steps from 0"},
        {"-3", "must be steps from 0"},
        {"3-", "must be steps from 0"},
        {"3-4-5", "must be steps from 0"},
        {"2147483648", "must be steps from 0"},
        {"00000000000000000000000000000000001", "must be steps from 0"},
    };
    struct step_ranges named = {.n = 7};
    char why[128], many[STEP_RANGES_MOST * 4 + 8];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_msg(!step_ranges_parse(rows[i].text, &named, why, sizeof why), "%s",
                      rows[i].text);
        ck_assert_msg(strncmp(why, rows[i].why, strlen(rows[i].why)) == 0, "%s: %s", rows[i].text,
                      why);
    }
    size_t used = 0;
    for (unsigned i = 0; i <= STEP_RANGES_MOST; i++)
        used += (size_t)sprintf(many + used, "%s%u", i ? "," : "", 10 + i);
    ck_assert(!step_ranges_parse(many, &named, why, sizeof why) && named.n == 7);
    ck_assert_str_eq(why, "must name at most 64 ranges");
    *strrchr(many, ',') = '\0';
    ck_assert(step_ranges_parse(many, &named, why, sizeof why) && named.n == STEP_RANGES_MOST);
}
END_TEST

Suite *suite_schedule(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tcase = tcase_create("schedule");
    tcase_add_test(tcase, follows_torchs_schedule);
    tcase_add_test(tcase, follows_torchs_schedule_without_first_wait);
    tcase_add_test(tcase, saves_every_step);
    tcase_add_test(tcase, waits_warms_up_and_records_once);
    tcase_add_test(tcase, follows_composers_default_schedule);
    tcase_add_test(tcase, repeat_zero_never_ends);
    tcase_add_test(tcase, records_at_once_without_wait_and_warmup);
    tcase_add_test(tcase, huge_counts_do_not_overflow);
    tcase_add_test(tcase, skips_steps_of_invalid_schedules);
    tcase_add_test(tcase, scope_none_is_always_active);
    tcase_add_test(tcase, each_epoch_follows_composers_schedule);
    tcase_add_test(tcase, epoch_end_saves_only_active_steps);
    tcase_add_test(tcase, scope_values_match_the_setting);
    tcase_add_test(tcase, describes_schedules_in_one_line);
    tcase_add_test(tcase, records_named_steps);
    tcase_add_test(tcase, rejects_invalid_step_ranges);
    tcase_add_test(tcase, merges_adjacent_and_nested_demands);
    tcase_add_test(tcase, keeps_overlapping_demands_in_one_place);
    tcase_add_test(tcase, rejects_more_demands_than_places);
    suite_add_tcase(suite, tcase);
    return suite;
}
