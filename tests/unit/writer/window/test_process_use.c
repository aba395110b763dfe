/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window/process_use.h. */
#include "writer/window/process_use.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "writer/writer.h"

#define MS 1000000u

static _Atomic bool over;

static void *spin(void *arg)
{
    while (!over)
        ;
    return arg;
}

static void *read_use(void *arg)
{
    *(struct process_use *)arg = process_use_now();
    return NULL;
}

/* Reads as the cprof thread does. */
static struct process_use read_elsewhere(void)
{
    struct process_use use;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, read_use, &use), 0);
    pthread_join(thread, NULL);
    return use;
}

START_TEST(what_another_thread_runs_is_counted)
{
    pthread_t thread;
    over = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, spin, NULL), 0);
    struct process_use before = process_use_now();
    usleep(200000);
    struct process_use after = process_use_now();
    over = true;
    pthread_join(thread, NULL);
    uint64_t wall = after.at_ns - before.at_ns;
    uint64_t used = after.ran_ns + after.queued_ns - before.ran_ns - before.queued_ns;
    ck_assert_uint_ge(wall, 200 * (uint64_t)MS);
    ck_assert_uint_ge(used, wall / 2);
    ck_assert_uint_ge(after.threads, 1);
}
END_TEST

START_TEST(the_main_thread_is_told_apart)
{
    pthread_t thread;
    over = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, spin, NULL), 0);
    struct process_use before = read_elsewhere();
    usleep(200000); /* the process does nothing meanwhile */
    struct process_use after = read_elsewhere();
    over = true;
    pthread_join(thread, NULL);
    uint64_t all = after.ran_ns + after.queued_ns - before.ran_ns - before.queued_ns;
    uint64_t here =
        after.main_ran_ns + after.main_queued_ns - before.main_ran_ns - before.main_queued_ns;
    ck_assert_uint_ge(after.main_ran_ns, 1);
    ck_assert_uint_lt(here, all / 2);
}
END_TEST

START_TEST(windows_that_follow_each_other_share_a_reading)
{
    struct process_use one = process_use_now(), other = process_use_now();
    ck_assert_uint_eq(one.at_ns, other.at_ns);
}
END_TEST

START_TEST(the_account_has_differences)
{
    cpu_set_t two;
    CPU_ZERO(&two);
    CPU_SET(0, &two);
    CPU_SET(3, &two);
    struct writer_options options = {.affinity = &two, .affinity_size = sizeof two};
    struct process_use before = {1, 10, 20, 30, 40, 5, 50, 60},
                       after = {101, 11, 22, 33, 44, 6, 55, 66};
    struct buf b = {0};
    process_use_account(&before, &after, 200, &options, &b);
    buf_put(&b, "", 1);
    ck_assert_str_eq(b.data, "\"process\": {\"cores\": 2, \"threads\": 6, \"wall_ns\": 100, "
                             "\"ran_ns\": 1, \"queued_ns\": 2, \"system_ns\": 3, "
                             "\"page_faults\": 4, \"main_ran_ns\": 5, \"main_queued_ns\": 6}, ");
    buf_free(&b);
}
END_TEST

START_TEST(no_account_where_the_readings_tell_little)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    struct writer_options options = {.affinity = &one, .affinity_size = sizeof one};
    struct process_use none = {0}, before = {.at_ns = 1}, after = {.at_ns = 101};
    struct buf b = {0};
    process_use_account(&before, &after, 203, &options, &b); /* too late */
    process_use_account(&none, &after, 100, &options, &b);
    process_use_account(&before, &none, 100, &options, &b);
    options.affinity = NULL;
    process_use_account(&before, &after, 100, &options, &b);
    ck_assert_uint_eq(b.len, 0);
    buf_free(&b);
}
END_TEST

Suite *suite_process_use(void)
{
    Suite *s = suite_create("process_use");
    TCase *c = tcase_create("process_use");
    tcase_add_test(c, what_another_thread_runs_is_counted);
    tcase_add_test(c, the_main_thread_is_told_apart);
    tcase_add_test(c, windows_that_follow_each_other_share_a_reading);
    tcase_add_test(c, the_account_has_differences);
    tcase_add_test(c, no_account_where_the_readings_tell_little);
    suite_add_tcase(s, c);
    return s;
}
