/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every unit suite in one libcheck runner, on the main thread. libcheck forks a process per
 * test.
 *
 * A suite is a file tests/unit/<room>/test_<name>.c that defines `Suite *suite_<name>(void)`. The
 * Makefile turns the file names into rows SUITE(<name>) of suites.def, so a new file needs no other
 * edit. CK_RUN_SUITE=<name> runs one suite, CK_FORK=no keeps everything in one process for a
 * debugger; a name that no suite has is a failure. UNIT_SHARD=i/n runs every n-th suite from the
 * i-th on (tests/unit/run.sh). */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define SUITE(name) Suite *suite_##name(void);
#include "suites.def"
#undef SUITE

int main(void)
{
    SRunner *runner = srunner_create(NULL);
    const char *shard = getenv("UNIT_SHARD");
    unsigned mine = 0, shards = 1, at = 0;
    if (shard && (sscanf(shard, "%u/%u", &mine, &shards) != 2 || mine >= shards)) {
        fprintf(stderr, "UNIT_SHARD=%s is not i/n\n", shard);
        return EXIT_FAILURE;
    }

#define SUITE(name)                                                                                \
    if (at++ % shards == mine)                                                                     \
        srunner_add_suite(runner, suite_##name());
#include "suites.def"
#undef SUITE

    srunner_run_all(runner, CK_ENV);
    bool good = srunner_ntests_failed(runner) == 0 && srunner_ntests_run(runner) > 0;
    srunner_free(runner);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
