/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/core/parse.h: numbers, booleans, choices, lists, and the distance of names. */
#include <check.h>

#include "preload/core/parse.h"

Suite *suite_parse(void);

static const char choices[] = "run|epoch|none|nvtx:GLOB";

START_TEST(accepts_decimal_numbers)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"0", 0},
        {"7", 7},
        {"007", 7},
        {"-1", -1},
        {"-0", 0},
        {" 42\t", 42},
        {"42\r\n", 42},
        {"2147483647", 2147483647},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"0000000000000000000000000000005", 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 99;
        ck_assert_msg(parse_int(rows[i].text, INT64_MIN, INT64_MAX, &value), "%s", rows[i].text);
        ck_assert_msg(value == rows[i].value, "%s gave %lld", rows[i].text, (long long)value);
    }
}
END_TEST

START_TEST(rejects_other_notations_and_overflow)
{
    static const char *const rows[] = {
        "",
        " ",
        "-",
        "--1",
        "+5",
        "1e3",
        "0x10",
        "1.0",
        "1,000",
        "1_000",
        "1 2",
        "- 1",
        "a",
        "5s",
        "\xd9\xa3" /* Arabic-Indic 3 */,
        "\xef\xbc\x95" /* full-width 5 */,
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
        "\v5",
        "5\xc2\xa0" /* no-break space */,
    };
    int64_t value = 99;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(!parse_int(rows[i], INT64_MIN, INT64_MAX, &value), "'%s'", rows[i]);
    ck_assert(!parse_int(NULL, INT64_MIN, INT64_MAX, &value));
    ck_assert_int_eq(value, 99);
}
END_TEST

START_TEST(rejects_numbers_outside_the_limits)
{
    int64_t value = 99;
    ck_assert(!parse_int("0", 1, 10, &value));
    ck_assert(!parse_int("11", 1, 10, &value));
    ck_assert_int_eq(value, 99);
    ck_assert(parse_int("1", 1, 10, &value) && value == 1);
    ck_assert(parse_int("10", 1, 10, &value) && value == 10);
    ck_assert(parse_int("-1", -1, 10, &value) && value == -1);
}
END_TEST

START_TEST(parses_booleans_in_any_case)
{
    static const char *const yes[] = {"1", "true", "TRUE", "Yes", "on", " on "};
    static const char *const no[] = {"0", "false", "False", "NO", "off", "oFF\n"};
    static const char *const neither[] = {"",  " ", "2",      "00", "01",
                                          "t", "y", "enable", "-1", "truee"};
    bool value = false;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        value = false;
        ck_assert_msg(parse_bool(yes[i], &value) && value, "'%s'", yes[i]);
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        value = true;
        ck_assert_msg(parse_bool(no[i], &value) && !value, "'%s'", no[i]);
    }
    value = true;
    for (size_t i = 0; i < sizeof neither / sizeof neither[0]; i++)
        ck_assert_msg(!parse_bool(neither[i], &value) && value, "'%s'", neither[i]);
    ck_assert(!parse_bool(NULL, &value));
}
END_TEST

START_TEST(parses_choices_by_name)
{
    int index = 99;
    ck_assert(parse_choice("run", choices, &index) && index == 0);
    ck_assert(parse_choice(" Epoch ", choices, &index) && index == 1);
    ck_assert(parse_choice("NONE", choices, &index) && index == 2);
    ck_assert(parse_choice("nvtx:step*", choices, &index) && index == 3);
    index = 99;
    ck_assert(!parse_choice("", choices, &index));
    ck_assert(!parse_choice("runs", choices, &index));
    ck_assert(!parse_choice("ru", choices, &index));
    ck_assert(!parse_choice("run|epoch", choices, &index));
    ck_assert(!parse_choice("nvtx", choices, &index));
    ck_assert(!parse_choice("nvtx:", choices, &index));
    ck_assert(!parse_choice(NULL, choices, &index));
    ck_assert_int_eq(index, 99);
}
END_TEST

START_TEST(parses_comma_separated_choices)
{
    unsigned bits = 99;
    ck_assert(parse_list("cpu", "cpu|cuda|xpu", &bits) && bits == 1);
    ck_assert(parse_list("cuda,cpu", "cpu|cuda|xpu", &bits) && bits == 3);
    ck_assert(parse_list(" CPU , xpu ", "cpu|cuda|xpu", &bits) && bits == 5);
    ck_assert(parse_list("cuda,cuda", "cpu|cuda|xpu", &bits) && bits == 2);
    bits = 99;
    ck_assert(!parse_list("", "cpu|cuda", &bits));
    ck_assert(!parse_list("cpu,", "cpu|cuda", &bits));
    ck_assert(!parse_list(",cpu", "cpu|cuda", &bits));
    ck_assert(!parse_list("cpu,,cuda", "cpu|cuda", &bits));
    ck_assert(!parse_list("cpu cuda", "cpu|cuda", &bits));
    ck_assert(!parse_list("cpu,gpu", "cpu|cuda", &bits));
    ck_assert(!parse_list(NULL, "cpu|cuda", &bits));
    ck_assert_uint_eq(bits, 99);
}
END_TEST

START_TEST(counts_edits_between_names)
{
    char long_name[300];
    ck_assert_uint_eq(parse_distance("", ""), 0);
    ck_assert_uint_eq(parse_distance("", "abc"), 3);
    ck_assert_uint_eq(parse_distance("abc", ""), 3);
    ck_assert_uint_eq(parse_distance("CPROF_ACTIVEE", "CPROF_ACTIVE"), 1);
    ck_assert_uint_eq(parse_distance("cprof_active", "CPROF_ACTIVE"), 0);
    ck_assert_uint_eq(parse_distance("CPROF_WIAT", "CPROF_WAIT"), 1);
    ck_assert_uint_eq(parse_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(parse_distance("ab", "ba"), 1);
    for (size_t i = 0; i < sizeof long_name; i++)
        long_name[i] = 'x';
    long_name[sizeof long_name - 1] = '\0';
    ck_assert_uint_eq(parse_distance(long_name, ""), 63);
    ck_assert_uint_eq(parse_distance(long_name, long_name), 0);
}
END_TEST

START_TEST(recognizes_blank_text)
{
    ck_assert(parse_is_blank(NULL));
    ck_assert(parse_is_blank(""));
    ck_assert(parse_is_blank(" \t\r\n"));
    ck_assert(!parse_is_blank(" x"));
    ck_assert(!parse_is_blank("\xc2\xa0"));
}
END_TEST

Suite *suite_parse(void)
{
    Suite *suite = suite_create("parse");
    TCase *tcase = tcase_create("parse");
    tcase_add_test(tcase, accepts_decimal_numbers);
    tcase_add_test(tcase, rejects_other_notations_and_overflow);
    tcase_add_test(tcase, rejects_numbers_outside_the_limits);
    tcase_add_test(tcase, parses_booleans_in_any_case);
    tcase_add_test(tcase, parses_choices_by_name);
    tcase_add_test(tcase, parses_comma_separated_choices);
    tcase_add_test(tcase, counts_edits_between_names);
    tcase_add_test(tcase, recognizes_blank_text);
    suite_add_tcase(suite, tcase);
    return suite;
}
