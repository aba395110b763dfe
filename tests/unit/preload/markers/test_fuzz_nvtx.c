/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus of tests/fuzz/fuzz_nvtx.c: NVTX calls. */
#define LLVMFuzzerTestOneInput fuzz_nvtx
#include "tests/fuzz/fuzz_nvtx.c"

#include <check.h>

#include "tests/support/corpus.h"

START_TEST(corpus)
{
    ck_assert_uint_ge(corpus_replay("tests/fuzz/nvtx", fuzz_nvtx, 1000), 10);
    ck_assert_uint_gt(input_records, 1000); /* they do record */
}
END_TEST

Suite *suite_fuzz_nvtx(void)
{
    Suite *suite = suite_create("fuzz_nvtx");
    TCase *all = tcase_create("all");
    tcase_add_test(all, corpus);
    suite_add_tcase(suite, all);
    return suite;
}
