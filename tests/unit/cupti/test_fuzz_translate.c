/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus of tests/fuzz/fuzz_translate.c: activity records of every version of CUPTI. */
#define LLVMFuzzerTestOneInput fuzz_translate
#include "tests/fuzz/fuzz_translate.c"

#include <check.h>

#include "tests/support/corpus.h"

START_TEST(corpus)
{
    ck_assert_uint_ge(corpus_replay("tests/fuzz/translate", fuzz_translate, 1000), 6);
}
END_TEST

Suite *suite_fuzz_translate(void)
{
    Suite *suite = suite_create("fuzz_translate");
    TCase *all = tcase_create("all");
    tcase_add_test(all, corpus);
    suite_add_tcase(suite, all);
    return suite;
}
