/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus of tests/fuzz/fuzz_text.c: templates, numbers, patterns, launchers' variables,
 * metadata. */
#define LLVMFuzzerTestOneInput fuzz_text
#include "tests/fuzz/fuzz_text.c"

#include <check.h>

#include "tests/support/corpus.h"

START_TEST(corpus)
{
    ck_assert_uint_ge(corpus_replay("tests/fuzz/text", fuzz_text, 3000), 10);
}
END_TEST

Suite *suite_fuzz_text(void)
{
    Suite *suite = suite_create("fuzz_text");
    TCase *all = tcase_create("all");
    tcase_add_test(all, corpus);
    suite_add_tcase(suite, all);
    return suite;
}
