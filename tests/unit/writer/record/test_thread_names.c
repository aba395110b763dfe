/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/thread_names.h: many names, set and forgotten in any order, and their
 * limit. */
#include "writer/record/thread_names.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/alloc.h"
#include "writer/writer.h"

static void set_name(uint32_t tid)
{
    char text[32];
    int n = snprintf(text, sizeof text, "thread-%u", tid);
    writer_name_thread(tid, text, (size_t)n);
}

/* 1: the thread has the name that set_name() gives, 0: it has none. */
static unsigned has_name(uint32_t tid)
{
    struct thread_name found;
    char text[32];
    int n = snprintf(text, sizeof text, "thread-%u", tid);
    if (!thread_names_find(tid, &found))
        return 0;
    if (found.tid != tid || found.len != (uint32_t)n || memcmp(found.text, text, (size_t)n) != 0)
        ck_abort_msg("thread %u has the name %.*s", tid, (int)found.len, found.text);
    return 1;
}

static uint64_t lost(void)
{
    return process_losses[LOSS_NAMES];
}

START_TEST(keeps_as_many_names_as_threads)
{
    uint64_t before = lost();
    unsigned n = 0, wrong = 0;
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid++)
        set_name(tid * 7);
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid++)
        n += has_name(tid * 7);
    ck_assert_uint_eq(n, THREAD_NAMES);
    ck_assert_uint_ge(n, 16384);
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid += 2)
        thread_names_ended(tid * 7);
    thread_names_forget();
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid++)
        wrong += has_name(tid * 7) != (tid + 1) % 2;
    ck_assert_uint_eq(wrong, 0);
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid += 2)
        set_name(tid * 7 + 1); /* new threads use the free places */
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid++)
        wrong += !has_name(tid % 2 ? tid * 7 + 1 : tid * 7);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(lost() - before, 0);
}
END_TEST

START_TEST(counts_names_beyond_the_limit)
{
    uint64_t before = lost();
    for (uint32_t tid = 1; tid <= THREAD_NAMES; tid++)
        set_name(tid);
    set_name(THREAD_NAMES + 1);
    set_name(5); /* thread 5 has a name already */
    ck_assert_uint_eq(has_name(THREAD_NAMES + 1), 0);
    ck_assert_uint_eq(lost() - before, 1);
    thread_names_ended(12);
    thread_names_ended(12);
    set_name(THREAD_NAMES + 1);
    ck_assert_uint_eq(lost() - before, 2);
    thread_names_forget();
    thread_names_forget();
    set_name(THREAD_NAMES + 1);
    ck_assert_uint_eq(has_name(THREAD_NAMES + 1), 1);
    ck_assert_uint_eq(lost() - before, 2);
}
END_TEST

START_TEST(counts_names_without_memory)
{
    if (!alloc_is_ours)
        return;
    uint64_t before = lost();
    alloc_fail_from(1);
    set_name(1);
    alloc_fail_from(0);
    ck_assert_uint_eq(has_name(1), 0);
    ck_assert_uint_eq(lost() - before, 1);
    set_name(1);
    ck_assert_uint_eq(has_name(1), 1);
}
END_TEST

START_TEST(keeps_the_last_name)
{
    struct thread_name found;
    set_name(3);
    writer_name_thread(3, "other", 5);
    ck_assert(thread_names_find(3, &found) && found.len == 5 && !memcmp(found.text, "other", 5));
    writer_name_thread(3, "", 0);
    ck_assert(!thread_names_find(3, &found));
    thread_names_ended(4);
}
END_TEST

START_TEST(forgets_names_of_ended_threads_later)
{
    set_name(1);
    set_name(2);
    set_name(3);
    thread_names_ended(1);
    thread_names_ended(2);
    ck_assert_uint_eq(has_name(1) + has_name(2), 2);
    set_name(1); /* another thread has the same id */
    thread_names_forget();
    ck_assert_uint_eq(has_name(1) + has_name(3), 2);
    ck_assert_uint_eq(has_name(2), 0);
    thread_names_ended(1);
    set_name(1);
    thread_names_ended(1);
    set_name(2);
    thread_names_forget();
    ck_assert_uint_eq(has_name(1), 0);
    ck_assert_uint_eq(has_name(2) + has_name(3), 2);
}
END_TEST

Suite *suite_thread_names(void)
{
    Suite *suite = suite_create("thread_names");
    TCase *all = tcase_create("all");
    tcase_add_test(all, keeps_as_many_names_as_threads);
    tcase_add_test(all, counts_names_beyond_the_limit);
    tcase_add_test(all, counts_names_without_memory);
    tcase_add_test(all, keeps_the_last_name);
    tcase_add_test(all, forgets_names_of_ended_threads_later);
    suite_add_tcase(suite, all);
    return suite;
}
