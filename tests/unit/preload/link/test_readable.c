/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/link/readable.h: which memory may be read. tests/e2e/test_stacks.py checks
 * that libunwind uses it. */
#include "preload/link/readable.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096u

static char *map(int protection)
{
    char *pages = mmap(NULL, 3 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    return pages;
}

START_TEST(accepts_mapped_memory)
{
    static const char constant[] = "constant";
    char on_stack;
    char *fresh = map(PROT_READ), *code = map(PROT_READ | PROT_EXEC), *heap = malloc(1);
    errno = 12345;
    ck_assert(readable(&on_stack) && readable(constant) && readable(heap));
    ck_assert(readable(fresh) && readable(code)); /* never touched */
    for (unsigned i = 0; i < PAGE; i++)
        ck_assert(readable(fresh + i)); /* does not touch the next page */
    ck_assert_int_eq(errno, 12345);
    free(heap);
}
END_TEST

START_TEST(rejects_unmapped_memory)
{
    char *pages = map(PROT_READ | PROT_WRITE), *none = map(PROT_NONE);
    munmap(pages + PAGE, PAGE);
    errno = 12345;
    ck_assert(readable(pages + PAGE - 1) && readable(pages + 2 * PAGE));
    ck_assert(!readable(pages + PAGE) && !readable(pages + 2 * PAGE - 1));
    ck_assert(!readable(none) && !readable(none + PAGE - 1));
    ck_assert(!readable(NULL) && !readable((const void *)1) && !readable((const void *)8));
    ck_assert(!readable((const void *)UINTPTR_MAX) &&
              !readable((const void *)((uintptr_t)1 << 63)));
    ck_assert_int_eq(errno, 12345);
}
END_TEST

Suite *suite_readable(void)
{
    Suite *suite = suite_create("readable");
    TCase *tcase = tcase_create("readable");
    tcase_add_test(tcase, accepts_mapped_memory);
    tcase_add_test(tcase, rejects_unmapped_memory);
    suite_add_tcase(suite, tcase);
    return suite;
}
