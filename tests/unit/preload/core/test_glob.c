/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/core/glob.c: patterns, and names that are not terminated. */
#include "preload/core/glob.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool matches(const char *pattern, const char *text)
{
    size_t len = strlen(text);
    char *exact = strndup(text, len); /* without a NUL, so that ASan sees an overread */
    bool result = glob_match(pattern, exact, len);
    free(exact);
    return result;
}

START_TEST(matches_shell_patterns)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"step", "step", true},
        {"step", "step1", false},
        {"step", "ste", false},
        {"*", "", true},
        {"*", "anything", true},
        {"step*", "step", true},
        {"step*", "step 12", true},
        {"*step", "a step", true},
        {"*a*b*c", "xaxbxbxc", true},
        {"*a*b*c", "xaxbxbxcx", false},
        {"?", "", false},
        {"s?ep", "step", true},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[!a-c]x", "dx", true},
        {"[^a]", "a", false},
        {"[]]", "]", true},
        {"[", "[", true},
        {"[a", "[a", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"\\", "\\", true},
        {"d/*", "d/step", true},
        {"[a-]", "-", true},
        {"\xff*", "\xff\x01", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(matches(rows[i].pattern, rows[i].text) == rows[i].matches, "%s on %s",
                      rows[i].pattern, rows[i].text);
}
END_TEST

START_TEST(matches_only_the_given_length)
{
    ck_assert(glob_match("step", "stepping", 4));
    ck_assert(glob_match("a?b", "a\0b", 3));
}
END_TEST

START_TEST(finishes_for_patterns_with_many_stars)
{
    char text[2001] = "";
    memset(text, 'a', sizeof text - 1);
    ck_assert(!matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}
END_TEST

Suite *suite_glob(void)
{
    Suite *suite = suite_create("glob");
    TCase *tc = tcase_create("glob");
    tcase_add_test(tc, matches_shell_patterns);
    tcase_add_test(tc, matches_only_the_given_length);
    tcase_add_test(tc, finishes_for_patterns_with_many_stars);
    suite_add_tcase(suite, tc);
    return suite;
}
