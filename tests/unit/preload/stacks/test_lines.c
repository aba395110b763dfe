/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/stacks/lines.h: the answers of addr2line. tests/e2e/test_stacks.py checks that
 * the lines are right. */
#include "preload/stacks/lines.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

Suite *suite_lines(void);

START_TEST(parses_answers_of_addr2line)
{
    static const struct {
        const char *text;
        bool column;
        const char *file; /* "": unknown */
        int line;
    } rows[] = {
        {"/src/a.c:12", false, "/src/a.c", 12},
        {"/src/a.c:12 (discriminator 3)", false, "/src/a.c", 12},
        {"/src/a.c:12:7", true, "/src/a.c", 12},
        {"/src/a.c:12", true, "/src/a.c", 12}, /* without a column */
        {"C:\\x:y/a b.c:12:7", true, "C:\\x:y/a b.c", 12},
        {"/src/odd:3:12", false, "/src/odd:3", 12},
        {"??:0", false, "", 0},
        {"??:?", false, "", 0},
        {"??:0:0", true, "", 0},
        {"a.c:?", false, "", 0},
        {"a.c:0", false, "", 0},
        {"a.c:99999999999", false, "", 0},
        {"a.c:2147483648", false, "", 0},
        {":12", false, "", 0},
        {"12", false, "", 0},
        {"", false, "", 0},
        {"addr2line: cannot open", false, "", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t line = 0;
        uint32_t len =
            lines_parse(rows[i].text, (uint32_t)strlen(rows[i].text), rows[i].column, &line);
        ck_assert_msg(len == strlen(rows[i].file) && memcmp(rows[i].text, rows[i].file, len) == 0 &&
                          line == rows[i].line,
                      "%s: %.*s %d", rows[i].text, (int)len, rows[i].text, line);
    }
}
END_TEST

Suite *suite_lines(void)
{
    Suite *suite = suite_create("lines");
    TCase *tcase = tcase_create("lines");
    tcase_add_test(tcase, parses_answers_of_addr2line);
    suite_add_tcase(suite, tcase);
    return suite;
}
