/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the seed files of each fuzz target fuzz_<name>.c, so that `make test` runs what fuzzing
 * found. A row has the variants per file, the least number of files and of records. */
#include <check.h>

#include "tests/fuzz/input.h"
#include "tests/support/corpus.h"

#define TARGETS(row)                                                                               \
    row(import, 1000, 5, 0) row(itt, 1000, 15, 1001) row(json, 2000, 7, 0)                         \
        row(nvtx, 1000, 16, 1001) row(text, 3000, 11, 0) row(translate, 1000, 8, 0)

#define DECLARE(name, variants, files, records) int fuzz_##name(const uint8_t *, size_t);
TARGETS(DECLARE)

static const struct {
    const char *folder;
    int (*target)(const uint8_t *, size_t);
    unsigned variants, files;
    unsigned long records; /* least number of records, to prove that the target records */
} targets[] = {
#define ROW(name, variants, files, records)                                                        \
    {"tests/fuzz/" #name, fuzz_##name, variants, files, records},
    TARGETS(ROW)};

START_TEST(replays_the_seeds)
{
    input_records = 0;
    ck_assert_uint_ge(corpus_replay(targets[_i].folder, targets[_i].target, targets[_i].variants),
                      targets[_i].files);
    ck_assert_uint_ge(input_records, targets[_i].records);
}
END_TEST

Suite *suite_fuzz(void)
{
    Suite *suite = suite_create("fuzz");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, replays_the_seeds, 0, sizeof targets / sizeof *targets);
    suite_add_tcase(suite, all);
    return suite;
}
