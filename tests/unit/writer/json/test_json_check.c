/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer_check_json() in writer/json/json_scan.h: the output for valid JSON, and the place
 * and reason of each fault. No access may be out of bounds. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/json_valid.h"
#include "writer/json/json_scan.h"

/* Uses heap blocks of the exact size, so that ASan sees an overrun. */
static size_t check(const char *text, size_t len, char *out, struct json_fault *fault)
{
    char *given = malloc(len ? len : 1), *made = malloc(len ? len : 1);
    ck_assert(given && made);
    memcpy(given, text, len);
    size_t used = writer_check_json(given, len, made, fault);
    ck_assert_uint_le(used, len);
    memcpy(out, made, used);
    out[used] = '\0';
    free(given);
    free(made);
    return used;
}

static const struct {
    const char *text, *out;
} accepted[] = {
    {"1", "1"},
    {" \t\r\n-0.5e+3 ", "-0.5e+3"},
    {"0", "0"},
    {"-0", "-0"},
    {"1E5", "1E5"},
    {"123456789012345678901234567890", "123456789012345678901234567890"},
    {"1.7976931348623157e+308", "1.7976931348623157e+308"},
    {"0.00017976931348623157e312", "0.00017976931348623157e312"},
    {"1e-999999999999999999999", "1e-999999999999999999999"},
    {"0e999999", "0e999999"},
    {"true", "true"},
    {"false", "false"},
    {"null", "null"},
    {"\"\"", "\"\""},
    {"[]", "[]"},
    {"{}", "{}"},
    {"[ ]", "[]"},
    {" { } ", "{}"},
    {"[1, 2 ,3]", "[1,2,3]"},
    {"{\"a\" : {\"b\" :[ ]} ,\n \"c\":null}", "{\"a\":{\"b\":[]},\"c\":null}"},
    {"\"\\\" \\\\ \\/ \\b\\f\\n\\r\\t\"", "\"\\\" \\\\ / \\b\\f\\n\\r\\t\""},
    {"\"\\u00e9 \\u20AC \\ud83d\\ude00\"", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
    {"\"\\u0000\\u001F\"", "\"\\u0000\\u001f\""},
    {"\"\\u0022\\u005c\\u002f\"", "\"\\\"\\\\/\""},
    {"\"\x7f h\xc3\xa9llo \xf0\x9f\x98\x80\"", "\"\x7f h\xc3\xa9llo \xf0\x9f\x98\x80\""},
};

START_TEST(accepts_valid_json)
{
    char out[256];
    struct json_fault fault;
    const char *want = accepted[_i].out;
    ck_assert_uint_eq(check(accepted[_i].text, strlen(accepted[_i].text), out, &fault),
                      strlen(want));
    ck_assert_str_eq(out, want);
    ck_assert(json_valid(out, strlen(out)));
}
END_TEST

static const struct {
    const char *text;
    size_t at;
    const char *what;
} refused[] = {
    {"", 0, "a value is missing"},
    {"  ", 2, "a value is missing"},
    {"NaN", 0, "NaN and Infinity"},
    {"[1, NaN]", 4, "NaN and Infinity"},
    {"Infinity", 0, "NaN and Infinity"},
    {"{\"a\": -Infinity}", 6, "NaN and Infinity"},
    {"nan", 0, "not a value"},
    {"True", 0, "not a value"},
    {"tru", 0, "not a value"},
    {"'a'", 0, "not a value"},
    {"+1", 0, "not a value"},
    {".5", 0, "not a value"},
    {"01", 0, "begins with 0"},
    {"-01", 1, "begins with 0"},
    {"1.", 2, "a digit is missing"},
    {"1.e5", 2, "a digit is missing"},
    {"1e", 2, "a digit is missing"},
    {"-", 1, "a digit is missing"},
    {"-a", 1, "a digit is missing"},
    {"0x10", 1, "text after the value"},
    {"1 2", 2, "text after the value"},
    {"{} // no", 3, "text after the value"},
    {"1e309", 0, "beyond the range"},
    {"[-1.8e308]", 1, "beyond the range"},
    {"1e99999999999999999999", 0, "beyond the range"},
    {"[1, 2", 5, "it ends too early"},
    {"[1 2]", 3, "a comma is missing"},
    {"[1,]", 3, "not a value"},
    {"[,1]", 1, "not a value"},
    {"{\"a\" 1}", 5, "a colon is missing"},
    {"{\"a\":}", 5, "not a value"},
    {"{\"a\":1,}", 7, "a key in double quotes"},
    {"{a: 1}", 1, "a key in double quotes"},
    {"{1: 1}", 1, "a key in double quotes"},
    {"[1}", 2, "a comma is missing"},
    {"\"abc", 0, "a string without an end"},
    {"\"a\nb\"", 2, "a control character"},
    {"\"\\x\"", 1, "an invalid escape"},
    {"\"\\", 1, "an invalid escape"},
    {"\"\\u12\"", 1, "four hexadecimal"},
    {"\"\\u12g4\"", 1, "four hexadecimal"},
    {"\"\\ud83d\"", 1, "half of a surrogate"},
    {"\"\\ud83d\\u0041\"", 1, "half of a surrogate"},
    {"\"\\ude00\"", 1, "half of a surrogate"},
    {"\"\xff\"", 1, "not UTF-8"},
    {"\"\xc3\"", 1, "not UTF-8"},
    {"\"\xc0\xaf\"", 1, "not UTF-8"},
    {"\"\xed\xa0\x80\"", 1, "not UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 1, "not UTF-8"},
};

START_TEST(refuses_invalid_json)
{
    char out[256];
    struct json_fault fault = {99, ""};
    ck_assert_uint_eq(check(refused[_i].text, strlen(refused[_i].text), out, &fault), 0);
    ck_assert_uint_eq(fault.at, refused[_i].at);
    ck_assert_msg(strstr(fault.what, refused[_i].what) != NULL, "%s: %s", refused[_i].text,
                  fault.what);
}
END_TEST

START_TEST(refuses_deeply_nested_json)
{
    char text[2 * JSON_DEPTH + 3], out[sizeof text];
    struct json_fault fault;
    memset(text, '[', JSON_DEPTH + 1);
    memset(text + JSON_DEPTH + 1, ']', JSON_DEPTH + 1);
    ck_assert_uint_eq(check(text, 2 * JSON_DEPTH + 2, out, &fault), 0);
    ck_assert_uint_eq(fault.at, JSON_DEPTH);
    ck_assert_str_eq(fault.what, "nested too deeply");
    ck_assert_uint_eq(check(text + 1, 2 * JSON_DEPTH, out, &fault), 2 * JSON_DEPTH);
}
END_TEST

/* Every text, truncated anywhere or with any byte changed, is refused or gives valid output. */
START_TEST(mutated_json_gives_valid_output_or_none)
{
    static const char text[] = "{\"a\\u00e9\\ud83d\\ude00\\n\": [1, -2.5e-3, true, null, "
                               "\"\xf0\x9f\x98\x80\"], \"b\": {}}";
    char changed[sizeof text], out[sizeof text];
    struct json_fault fault;
    for (size_t at = 0; at < sizeof text - 1; at++) {
        ck_assert_uint_eq(check(text, at, out, &fault), 0);
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, text, sizeof text);
            changed[at] = (char)byte;
            size_t used = check(changed, sizeof text - 1, out, &fault);
            ck_assert_msg(used == 0 || json_valid(out, used), "byte %zu as %d", at, byte);
        }
    }
}
END_TEST

Suite *suite_json_check(void)
{
    Suite *suite = suite_create("json_check");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, accepts_valid_json, 0, sizeof accepted / sizeof accepted[0]);
    tcase_add_loop_test(all, refuses_invalid_json, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(all, refuses_deeply_nested_json);
    tcase_add_test(all, mutated_json_gives_valid_output_or_none);
    suite_add_tcase(suite, all);
    return suite;
}
