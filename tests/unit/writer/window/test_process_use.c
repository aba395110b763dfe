/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window/process_use.h: CPU time of all threads and of the main thread,
 * and page faults. */
#include "writer/window/process_use.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
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
    *(struct process_use *)arg = process_use_now(0);
    return NULL;
}

/* Reads on another thread, as the cprof thread does. */
static struct process_use read_on_other_thread(void)
{
    struct process_use use;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, read_use, &use), 0);
    pthread_join(thread, NULL);
    return use;
}

START_TEST(counts_time_of_other_threads)
{
    pthread_t thread;
    over = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, spin, NULL), 0);
    struct process_use before = process_use_now(0);
    usleep(200000);
    struct process_use after = process_use_now(0);
    over = true;
    pthread_join(thread, NULL);
    uint64_t wall = after.at_ns - before.at_ns;
    uint64_t used = after.ran_ns + after.queued_ns - before.ran_ns - before.queued_ns;
    ck_assert_uint_ge(wall, 200 * (uint64_t)MS);
    ck_assert_uint_ge(used, wall / 2);
    ck_assert_uint_ge(after.threads, 1);
}
END_TEST

START_TEST(separates_the_main_thread)
{
    pthread_t thread;
    over = false;
    ck_assert_int_eq(pthread_create(&thread, NULL, spin, NULL), 0);
    struct process_use before = read_on_other_thread();
    usleep(200000); /* the main thread sleeps, only spin() runs */
    struct process_use after = read_on_other_thread();
    over = true;
    pthread_join(thread, NULL);
    uint64_t all = after.ran_ns + after.queued_ns - before.ran_ns - before.queued_ns;
    uint64_t here =
        after.main_ran_ns + after.main_queued_ns - before.main_ran_ns - before.main_queued_ns;
    ck_assert_uint_ge(after.main_ran_ns, 1);
    ck_assert_uint_lt(here, all / 2);
}
END_TEST

/* Takes a thousand fresh pages. */
static void take_pages(void)
{
    size_t size = 1000 * (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    madvise(pages, size, MADV_NOHUGEPAGE);
    memset(pages, 1, size);
    munmap(pages, size);
    usleep(20000); /* readings within 10 ms share one result */
}

static void *read_around_pages(void *readings)
{
    struct process_use *use = readings;
    use[0] = process_use_now(0);
    take_pages();
    use[1] = process_use_now(0);
    return NULL;
}

START_TEST(excludes_page_faults_of_the_calling_thread)
{
    struct process_use own[2], before, after;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, read_around_pages, own), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_lt(own[1].page_faults - own[0].page_faults, 500);
    usleep(20000);
    before = read_on_other_thread();
    take_pages();
    after = read_on_other_thread();
    ck_assert_uint_ge(after.page_faults - before.page_faults, 1000);
}
END_TEST

START_TEST(contiguous_windows_share_a_reading)
{
    struct process_use one = process_use_now(0), other = process_use_now(0);
    ck_assert_uint_eq(one.at_ns, other.at_ns);
}
END_TEST

START_TEST(account_reports_differences)
{
    cpu_set_t two;
    CPU_ZERO(&two);
    CPU_SET(0, &two);
    CPU_SET(3, &two);
    struct writer_options options = {.affinity = &two, .affinity_size = sizeof two};
    struct process_use use[] = {
        {1, 0, 10, 20, 30, 40, 5, 50, 60}, {0}, {101, 200, 11, 22, 33, 44, 6, 55, 66}};
    struct buf b = {0};
    process_use_account(use, &options, &b);
    buf_put(&b, "", 1);
    ck_assert_str_eq(b.data, "\"process\": {\"cores\": 2, \"threads\": 6, \"wall_ns\": 100, "
                             "\"ran_ns\": 1, \"queued_ns\": 2, \"system_ns\": 3, "
                             "\"page_faults\": 4, \"main_ran_ns\": 5, \"main_queued_ns\": 6}, ");
    buf_free(&b);
}
END_TEST

START_TEST(account_may_start_after_the_first_step)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    struct writer_options options = {.affinity = &one, .affinity_size = sizeof one};
    struct process_use use[] = {{.at_ns = 1, .due_ns = 1},
                                {.at_ns = 60, .due_ns = 50, .page_faults = 7},
                                {.at_ns = 101, .due_ns = 101, .page_faults = 9}};
    struct buf b = {0};
    process_use_account(use, &options, &b);
    use[USE_FIRST].at_ns = 90; /* too late */
    process_use_account(use, &options, &b);
    buf_put(&b, "", 1);
    const char *first = strstr(b.data, "\"page_faults\": 2,");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(strstr(first, "\"page_faults\": 9,"));
    buf_free(&b);
}
END_TEST

START_TEST(omits_the_account_without_useful_readings)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    struct writer_options options = {.affinity = &one, .affinity_size = sizeof one};
    struct process_use use[] = {
        {.at_ns = 1, .due_ns = 1}, {.at_ns = 90, .due_ns = 30}, {.at_ns = 101, .due_ns = 204}};
    struct buf b = {0};
    process_use_account(use, &options, &b); /* too late */
    use[USE_END].due_ns = 1;                /* no time between the edges */
    process_use_account(use, &options, &b);
    use[USE_END].due_ns = 201;
    options.affinity = NULL;
    process_use_account(use, &options, &b);
    options.affinity = &one;
    use[USE_START].at_ns = 0;
    process_use_account(use, &options, &b);
    ck_assert_uint_eq(b.len, 0);
    buf_free(&b);
}
END_TEST

Suite *suite_process_use(void)
{
    Suite *s = suite_create("process_use");
    TCase *c = tcase_create("process_use");
    tcase_add_test(c, counts_time_of_other_threads);
    tcase_add_test(c, separates_the_main_thread);
    tcase_add_test(c, excludes_page_faults_of_the_calling_thread);
    tcase_add_test(c, contiguous_windows_share_a_reading);
    tcase_add_test(c, account_reports_differences);
    tcase_add_test(c, account_may_start_after_the_first_step);
    tcase_add_test(c, omits_the_account_without_useful_readings);
    suite_add_tcase(s, c);
    return s;
}
