/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/link/got.h: an entry is replaced only if it holds the expected value and is
 * writable. tests/e2e/test_torch_path.py checks that calls in a real library are found. */
#include "preload/link/got.h"

#include <check.h>
#include <errno.h>
#include <sys/mman.h>

#define PAGE 4096u

static int first, second, third;

static void *_Atomic *slot_in_page(void)
{
    void *_Atomic *slot =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(slot, MAP_FAILED);
    return slot;
}

START_TEST(swap_replaces_the_expected_value)
{
    void *_Atomic *slot = slot_in_page();
    atomic_store(slot, &first);
    errno = 12345;
    ck_assert(got_swap(slot, &first, &second));
    ck_assert_ptr_eq(atomic_load(slot), &second);
    ck_assert(got_swap(slot, &second, &first));
    ck_assert_ptr_eq(atomic_load(slot), &first);
    ck_assert_int_eq(errno, 12345);
}
END_TEST

START_TEST(swap_keeps_an_unexpected_value)
{
    void *_Atomic *slot = slot_in_page();
    atomic_store(slot, &third);
    ck_assert(!got_swap(slot, &first, &second));
    ck_assert_ptr_eq(atomic_load(slot), &third);
}
END_TEST

START_TEST(swap_refuses_a_read_only_page)
{
    void *_Atomic *slot = slot_in_page();
    atomic_store(slot, &first);
    ck_assert_int_eq(mprotect((void *)slot, PAGE, PROT_READ), 0);
    errno = 12345;
    ck_assert(!got_swap(slot, &first, &second));
    ck_assert_ptr_eq(atomic_load(slot), &first);
    ck_assert_int_eq(errno, 12345);
    ck_assert_int_eq(mprotect((void *)slot, PAGE, PROT_READ | PROT_WRITE), 0);
    ck_assert(got_swap(slot, &first, &second));
}
END_TEST

/* The C library's entries are read-only after loading; nothing.so does not exist. */
START_TEST(find_skips_read_only_entries)
{
    struct got_call calls[] = {{"malloc", NULL}, {"no_such_function", NULL}};
    got_find_calls("libc.so", calls, 2);
    ck_assert_ptr_null(calls[0].slot);
    ck_assert_ptr_null(calls[1].slot);
    got_find_calls("nothing.so", calls, 2);
    ck_assert_ptr_null(calls[0].slot);
}
END_TEST

Suite *suite_got(void)
{
    Suite *s = suite_create("got");
    TCase *t = tcase_create("got");
    tcase_add_test(t, swap_replaces_the_expected_value);
    tcase_add_test(t, swap_keeps_an_unexpected_value);
    tcase_add_test(t, swap_refuses_a_read_only_page);
    tcase_add_test(t, find_skips_read_only_entries);
    suite_add_tcase(s, t);
    return s;
}
