/* SPDX-License-Identifier: Apache-2.0 Runs every unit suite in one libcheck runner. Runs on the
 * main thread; libcheck forks one process per test.
 *
 * A suite is a file tests/unit/<room>/test_<name>.c that defines `Suite *suite_<name>(void)`. The
 * Makefile turns the file names into rows SUITE(<name>) of suites.def, so a new file needs no other
 * edit. CK_RUN_SUITE=<name> runs one suite, CK_FORK=no keeps everything in one process for a
 * debugger. */
#include <check.h>
#include <stdlib.h>

#define SUITE(name) Suite *suite_##name(void);
#include "suites.def"
#undef SUITE

int main(void)
{
    SRunner *runner = srunner_create(NULL);

#define SUITE(name) srunner_add_suite(runner, suite_##name());
#include "suites.def"
#undef SUITE

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
