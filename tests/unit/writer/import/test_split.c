/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/import/split.h and writer/import/foreign.h: all forms of files, also truncated
 * and hostile, and the result for each kind of event. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/json_valid.h"
#include "tests/support/alloc.h"
#include "writer/import/foreign.h"
#include "writer/import/split.h"

/* ---- splitting ------------------------------------------------------------------------------- */

/* Describes the values in a text: `key=value` for a member, `*value` for an event, `long` for a
 * value that was skipped; at the end `!byte fault`, `cut` or `$`. */
static char *split_text(const char *text, size_t len, size_t most)
{
    static struct buf out;
    struct split s = {0};
    buf_reset(&out);
    enum split_got got = SPLIT_MORE;
    for (size_t at = 0; at < len && got != SPLIT_FAULT; at += most) {
        const char *p = text + at, *end = p + (len - at < most ? len - at : most);
        while ((got = split_next(&s, &p, end)) != SPLIT_MORE && got != SPLIT_FAULT) {
            bool is_event = got == SPLIT_EVENT || got == SPLIT_LONG_EVENT;
            bool is_long = got == SPLIT_LONG_EVENT || got == SPLIT_LONG_MEMBER;
            buf_printf(&out, "%s%s%.*s ", is_event ? "*" : s.key, is_event ? "" : "=",
                       is_long ? 4 : (int)s.value.len, is_long ? "long" : s.value.data);
        }
    }
    bool cut;
    if (!split_end(&s, &cut))
        buf_printf(&out, "!%llu %s", (unsigned long long)s.fault_at, s.fault);
    else
        buf_printf(&out, cut ? "cut" : "$");
    buf_put(&out, "", 1);
    split_free(&s);
    return out.data;
}

static void check_split(const char *text, const char *expected)
{
    for (size_t most = 1; most <= strlen(text) + 1; most++)
        ck_assert_str_eq(split_text(text, strlen(text), most), expected);
}

START_TEST(splits_objects_and_arrays)
{
    check_split(
        "{\"traceEvents\": [{\"a\": 1}, {}], \"b\":2 , \"c\": \"]}\\\"\",\"d\":{\"e\":[]}}\n",
        "*{\"a\": 1} *{} b=2 c=\"]}\\\"\" d={\"e\":[]} $");
    check_split("[{\"a\": 1}\n,{}\n] ", "*{\"a\": 1} *{} $");
    check_split("{\"traceEvents\":[]}", "$");
    check_split("{\"a\":true,\"traceEvents\":[{}],\"b\":null,\"traceEvents\":[{\"c\":1}]}",
                "a=true *{} b=null *{\"c\":1} $");
}
END_TEST

START_TEST(accepts_an_array_without_its_end)
{
    check_split("[", "$");
    check_split("[{\"a\":1},", "*{\"a\":1} $");
    check_split("[{\"a\":1}", "*{\"a\":1} $");
    check_split("[{\"a\":1},]", "*{\"a\":1} $");
    check_split("[{\"a\":1},{\"b\":\"", "*{\"a\":1} cut");
}
END_TEST

START_TEST(refuses_text_that_is_no_trace)
{
    check_split("", "!0 it is empty");
    check_split("  \n", "!3 it is empty");
    check_split("\"x\"", "!0 it is not a trace: it begins with neither { nor [");
    check_split("{\"a\":1}", "a=1 !7 it is not a trace: it has no traceEvents");
    check_split("{\"traceEvents\":7}", "!15 traceEvents is not an array");
    check_split("[1]", "!1 an event is not an object");
    check_split("[{},,{}]", "*{} !4 an event is not an object");
    check_split("{\"traceEvents\":[{},]}", "*{} !19 an event is not an object");
    check_split("{\"traceEvents\":[{}]", "*{} !19 it ends too early");
    check_split("{\"traceEvents\":[{\"a\":", "!21 it ends too early");
    check_split("{\"traceEvents\":[{}]} x", "*{} !21 data after the end");
    check_split("[{} {}]", "*{} !4 a comma or the closing bracket is missing");
    check_split("{a:1}", "!1 a key in double quotes is missing");
    check_split("{\"a\",1}", "!4 a colon is missing");
    check_split("{\"a\":,}", "!5 a value is missing");
    check_split("{\"a\":1,}", "a=1 !7 a key in double quotes is missing");
}
END_TEST

/* Makes BEGIN, n times MIDDLE, END. */
static char *repeated(const char *begin, const char *middle, size_t n, const char *end)
{
    struct buf b = {0};
    buf_puts(&b, begin);
    for (size_t i = 0; i < n; i++)
        buf_puts(&b, middle);
    buf_puts(&b, end);
    buf_put(&b, "", 1);
    return b.data;
}

START_TEST(skips_values_that_are_too_long)
{
    char *text = repeated("[{\"a\":\"", "x}]\\\"", SPLIT_VALUE_MOST / 4, "\"},{}]");
    for (size_t most = 1000; most < 8u << 20; most *= 20)
        ck_assert_str_eq(split_text(text, strlen(text), most), "*long *{} $");
    free(text);
    text = repeated("[{\"a\":[", "[],", SPLIT_CONTAINERS_MOST, "0]},{}]");
    ck_assert_str_eq(split_text(text, strlen(text), 4096), "*long *{} $");
    free(text);
    text = repeated("[{\"a\":[", "0,", SPLIT_VALUES_MOST + 1, "0]},{}]");
    ck_assert_str_eq(split_text(text, strlen(text), 4096), "*long *{} $");
    free(text);
    text = repeated("{\"a\":[", "18446744073709551615,", SPLIT_VALUE_MOST / 20,
                    "0],\"traceEvents\":[]}");
    ck_assert_str_eq(split_text(text, strlen(text), 4096), "a=long $");
    free(text);
}
END_TEST

/* A few kilobytes of gzip can unpack to endless blanks. */
START_TEST(refuses_endless_text)
{
    struct split s = {0};
    const char *text = "[ ", *end = text + 2;
    ck_assert_int_eq(split_next(&s, &text, end), SPLIT_MORE);
    s.at = SPLIT_TEXT_MOST;
    const char *more = "    ", *more_end = more + 4;
    ck_assert_int_eq(split_next(&s, &more, more_end), SPLIT_FAULT);
    ck_assert_str_eq(s.fault, SPLIT_TOO_LONG);
    split_free(&s);
}
END_TEST

START_TEST(refuses_deep_nesting)
{
    char *text = repeated("[{\"a\":", "[", 63, "");
    ck_assert_str_eq(split_text(text, strlen(text), 7), "cut");
    free(text);
    text = repeated("[{\"a\":", "[", 64, "");
    ck_assert_str_eq(split_text(text, strlen(text), 7), "!69 nested too deeply");
    free(text);
    text = repeated("{\"a\":", "[{\"b\":", 1000000, "");
    ck_assert_str_eq(split_text(text, strlen(text), 100), "!197 nested too deeply");
    free(text);
}
END_TEST

/* ---- numbers --------------------------------------------------------------------------------- */

START_TEST(reads_microseconds_as_ns)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0", 0},
        {"-0.0", 0},
        {"1", 1000},
        {"1.5", 1500},
        {"1.0004", 1000},
        {"1.0005", 1001},
        {"-2.5", -2500},
        {"1763633123456789.123", 1763633123456789123},
        {"9223372036854775.807", INT64_MAX},
        {"1e3", 1000000},
        {"1.25E+2", 125000},
        {"12345e-4", 1235},
        {"1e-99999999999999999999", 0},
        {"0e999999999", 0},
        {"0.00000000000000000000000000001", 0},
        {"1.23456789012345678901234567890", 1235},
    };
    static const char *const bad[] = {"",
                                      "-",
                                      ".5",
                                      "5.",
                                      "05",
                                      "+5",
                                      "1e",
                                      "1e+",
                                      "0x10",
                                      "1 ",
                                      " 1",
                                      "NaN",
                                      "1..2",
                                      "1.2.3",
                                      "1,5",
                                      "1e20",
                                      "9223372036854775.808",
                                      "1e999999999"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t ns = -1;
        ck_assert_msg(foreign_us(good[i].text, strlen(good[i].text), &ns), "%s", good[i].text);
        ck_assert_msg(ns == good[i].ns, "%s is %lld", good[i].text, (long long)ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ns;
        ck_assert_msg(!foreign_us(bad[i], strlen(bad[i]), &ns), "%s", bad[i]);
    }
}
END_TEST

/* ---- events ---------------------------------------------------------------------------------- */

#define ID(n) (UINT64_C(1) << 52 | UINT64_C(3) << 44 | (n))

static struct foreign *reader;
static struct buf out;

static void setup(void)
{
    reader = foreign_new();
    foreign_begin(reader, 3, 500, false);
}

static void teardown(void)
{
    foreign_free(reader);
    buf_free(&out);
}

/* The text that an event becomes; "" if it is dropped. */
static const char *put(const char *event)
{
    const char *why;
    uint64_t at;
    buf_reset(&out);
    ck_assert_msg(foreign_parse(reader, event, strlen(event), &why, &at), "%s", event);
    bool done = foreign_put(reader, &out);
    ck_assert_int_eq(done, out.len > 0);
    ck_assert_msg(json_lines_valid(out.data, out.len), "%.*s", (int)out.len, out.data);
    buf_put(&out, "", 1);
    return out.data;
}

static void check_put(const char *event, const char *expected)
{
    ck_assert_str_eq(put(event), expected);
}

START_TEST(imports_a_span)
{
    check_put(
        "{\"name\":\"a\\u00e9\\n\",\"cat\":\"c\",\"args\":{\"x\":[1,2.50,null,true,{\"y\":\"z\"}]},"
        "\"dur\":2,\"ts\":1.25,\"tid\":7,\"pid\":5,\"ph\":\"X\",\"cname\":\"good\"}",
        "{\"ph\": \"X\", \"cat\": \"c\", \"name\": \"aé\\n\", \"pid\": 30000005, \"tid\": 7, "
        "\"ts\": 1.750, \"dur\": 2.000, \"cname\": \"good\", \"args\": {\"x\": [1, 2.50, null, "
        "true, "
        "{\"y\": \"z\"}]}},\n");
    check_put(
        "{\"ph\":\"X\",\"ts\":\"1\",\"dur\":-3}",
        "{\"ph\": \"X\", \"pid\": 30000000, \"tid\": 30000000, \"ts\": 1.500, \"dur\": 0.000},\n");
}
END_TEST

START_TEST(imports_steps)
{
    static const char step[] = "{\"ph\":\"X\",\"name\":\"ProfilerStep#12\",\"ts\":1,\"dur\":2}";
    static const char on_gpu[] = "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\","
                                 "\"name\":\"ProfilerStep#12\",\"ts\":1,\"dur\":2}";
    ck_assert_ptr_nonnull(strstr(put(step), "\"name\": \"ProfilerStep#12\""));
    ck_assert_ptr_nonnull(strstr(put(on_gpu), "\"name\": \"torch.profiler step 12\""));
    foreign_begin(reader, 3, 500, true); /* readers would take the name for a step of cprof */
    ck_assert_ptr_nonnull(strstr(put(step), "\"name\": \"torch.profiler step 12\""));
    ck_assert_ptr_nonnull(strstr(put("{\"ph\":\"X\",\"name\":7,\"ts\":1,\"dur\":2}"), "\"ts\""));
}
END_TEST

START_TEST(numbers_rows_of_other_types)
{
    check_put("{\"ph\":\"i\",\"ts\":0,\"pid\":\"Spans\",\"tid\":0}",
              "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 39000000, \"tid\": 39000000, "
              "\"ts\": 0.000, "
              "\"args\": {\"name\": \"Spans\"}},\n"
              "{\"ph\": \"i\", \"pid\": 39000000, \"tid\": 4200000000, \"ts\": 0.500},\n");
    check_put("{\"ph\":\"i\",\"ts\":0,\"pid\":\"Spans\",\"tid\":0}",
              "{\"ph\": \"i\", \"pid\": 39000000, \"tid\": 4200000000, \"ts\": 0.500},\n");
    check_put("{\"ph\":\"i\",\"ts\":0,\"pid\":-1,\"tid\":140737353979712}",
              "{\"ph\": \"i\", \"pid\": 39000001, \"tid\": 4200000001, \"ts\": 0.500},\n");
    check_put("{\"ph\":\"i\",\"ts\":0,\"pid\":4294967296,\"tid\":\"\"}",
              "{\"ph\": \"i\", \"pid\": 39000002, \"tid\": 4200000002, \"ts\": 0.500},\n");
    char event[64];
    unsigned taken = 0;
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(event, sizeof event, "{\"ph\":\"i\",\"ts\":0,\"pid\":1,\"tid\":\"t%u\"}", i);
        taken += *put(event) != '\0';
    }
    ck_assert_uint_eq(taken, 8192 * 3 / 4 - 6); /* the number of rows is limited */
}
END_TEST

START_TEST(moves_equal_ids_alike)
{
    char expected[256];
    snprintf(
        expected, sizeof expected,
        "{\"ph\": \"s\", \"pid\": 30000001, \"tid\": 30000001, \"ts\": 0.500, \"id\": %llu},\n",
        (unsigned long long)ID(119));
    check_put("{\"ph\":\"s\",\"id\":119,\"pid\":1,\"ts\":0}", expected);
    snprintf(expected, sizeof expected,
             "{\"ph\": \"f\", \"pid\": 30000001, \"tid\": 30000001, \"ts\": 0.500, \"id\": "
             "\"0x%llx\", \"bp\": \"e\"},\n",
             (unsigned long long)ID(119));
    check_put("{\"ph\":\"f\",\"id\":\"77\",\"bp\":\"e\",\"pid\":1,\"ts\":0}", expected);
    snprintf(expected, sizeof expected,
             "{\"ph\": \"b\", \"pid\": 30000001, \"tid\": 30000001, \"ts\": 0.500, \"id2\": "
             "{\"local\": \"0x%llx\"}},\n",
             (unsigned long long)ID(1));
    check_put("{\"ph\":\"b\",\"id2\":{\"local\":\"0x1\"},\"pid\":1,\"ts\":0}", expected);
    snprintf(expected, sizeof expected,
             "{\"ph\": \"X\", \"pid\": 30000001, \"tid\": 30000001, \"ts\": 0.500, \"dur\": 1.000, "
             "\"bind_id\": %llu, "
             "\"flow_out\": true},\n",
             (unsigned long long)ID(2));
    check_put("{\"ph\":\"X\",\"bind_id\":2,\"flow_out\":true,\"pid\":1,\"ts\":0,\"dur\":1}",
              expected);
    /* An id that is a word or has too many bits gets a new id, always the same. */
    char *first = strdup(put("{\"ph\":\"b\",\"id\":\"request 5\",\"pid\":1,\"ts\":0}"));
    ck_assert_ptr_nonnull(strstr(first, "\"id\": \"0x"));
    check_put("{\"ph\":\"b\",\"id\":\"request 5\",\"pid\":1,\"ts\":0}", first);
    ck_assert_str_ne(put("{\"ph\":\"b\",\"id\":\"request 6\",\"pid\":1,\"ts\":0}"), first);
    foreign_begin(reader, 4, 500, false);
    ck_assert_str_ne(
        strstr(put("{\"ph\":\"b\",\"id\":\"request 5\",\"pid\":1,\"ts\":0}"), "\"id\""),
        strstr(first, "\"id\""));
    free(first);
    ck_assert_ptr_nonnull(
        strstr(put("{\"ph\":\"s\",\"id\":-1,\"pid\":1,\"ts\":0}"), "\"id\": \"0x"));
    ck_assert_ptr_nonnull(
        strstr(put("{\"ph\":\"s\",\"id\":9007199254740993,\"pid\":1,\"ts\":0}"), "\"id\": \"0x"));
    /* A counter's id becomes part of its name. */
    check_put("{\"ph\":\"C\",\"name\":\"n\",\"id\":5,\"pid\":1,\"ts\":0,\"args\":{\"v\":1}}",
              "{\"ph\": \"C\", \"name\": \"n\", \"pid\": 40000001, \"tid\": 40000001, \"ts\": "
              "0.500, \"id\": 5, "
              "\"args\": {\"v\": 1}},\n");
}
END_TEST

START_TEST(moves_ids_in_args)
{
    char expected[256];
    snprintf(
        expected, sizeof expected,
        "{\"ph\": \"X\", \"pid\": 30000000, \"tid\": 7, \"ts\": 0.500, \"dur\": 1.000, \"args\": "
        "{\"correlation\": %llu, \"External id\": %llu, \"stream\": 7, \"device\": 0}},\n",
        3ULL << 33 | 5, (unsigned long long)ID(9));
    check_put("{\"ph\":\"X\",\"pid\":0,\"tid\":7,\"ts\":0,\"dur\":1,\"args\":{\"correlation\":5,"
              "\"External id\":9,\"stream\":7,\"device\":0}}",
              expected);
    ck_assert_ptr_nonnull(
        strstr(put("{\"ph\":\"X\",\"ts\":0,\"dur\":1,\"args\":{\"correlation\":-1}}"),
               "\"correlation\": -1"));
}
END_TEST

START_TEST(writes_numbers_that_readers_accept)
{
    check_put(
        "{\"ph\":\"X\",\"ts\":0,\"dur\":1,\"args\":{\"a\":1e999,\"b\":NaN,\"c\":-Infinity,\"d\":1e-"
        "400,"
        "\"e\":0.30000000000000004,\"f\":-0,\"g\":\"18446744073709551615\",\"h\":1E5}}",
        "{\"ph\": \"X\", \"pid\": 30000000, \"tid\": 30000000, \"ts\": 0.500, \"dur\": 1.000, "
        "\"args\": {\"a\": "
        "\"Infinity\", "
        "\"b\": \"NaN\", \"c\": \"-Infinity\", \"d\": 0.0, \"e\": 0.30000000000000004, \"f\": 0, "
        "\"g\": \"18446744073709551615\", \"h\": 1E5}},\n");
    /* A counter keeps numbers only. */
    check_put(
        "{\"ph\":\"C\",\"name\":\"n\",\"ts\":0,\"args\":{\"a\":NaN,\"b\":\"2.5\",\"c\":\"x\",\"d\":"
        "null,"
        "\"e\":\"18446744073709551615\",\"f\":[1],\"\":1e999,\"g\":3}}",
        "{\"ph\": \"C\", \"name\": \"n\", \"pid\": 30000000, \"tid\": 30000000, \"ts\": 0.500, "
        "\"args\": {\"b\": 2.5, "
        "\"e\": 18446744073709551615.0, \"g\": 3}},\n");
}
END_TEST

START_TEST(repairs_strings)
{
    check_put("{\"ph\":\"i\",\"ts\":0,\"name\":\"\xff \\ud83d\\ude00 \\ud83d \\u001f\"}",
              "{\"ph\": \"i\", \"name\": \"\ufffd \U0001F600 \ufffd \\u001f\", \"pid\": 30000000, "
              "\"tid\": 30000000, "
              "\"ts\": 0.500},\n");
}
END_TEST

START_TEST(imports_row_names)
{
    check_put("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"tid\":0,\"args\":{\"name\":"
              "\"python\"}}",
              "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 30000005, \"tid\": 4200000000, "
              "\"ts\": 0.000, \"args\": {\"name\": \"python\"}},\n");
    check_put(
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"ts\":-9,\"pid\":5,\"args\":{\"sort_"
        "index\":9}}",
        "{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": 30000005, \"tid\": 30000005, "
        "\"ts\": 0.000, \"args\": {\"sort_index\": 9}},\n");
}
END_TEST

START_TEST(drops_events_that_no_reader_accepts)
{
    static const char *const bad[] = {
        "{}",
        "[1]",
        "{\"ph\":\"X\",\"ts\":1}",
        "{\"ph\":\"X\",\"dur\":1}",
        "{\"ph\":\"X\",\"dur\":1,\"ts\":\"NaN\"}",
        "{\"ph\":\"X\",\"dur\":1,\"ts\":null}",
        "{\"ph\":\"X\",\"dur\":1,\"ts\":-1}", /* before the trace's base */
        "{\"ph\":\"X\",\"dur\":9e15,\"ts\":9e15}",
        "{\"ph\":1,\"dur\":1,\"ts\":1}",
        "{\"ph\":\"\",\"dur\":1,\"ts\":1}",
        "{\"ph\":\"\\u00e9\",\"ts\":1}",
        "{\"ph\":\"c\",\"ts\":1}",
        "{\"ph\":\"T\",\"ts\":1}",
        "{\"ph\":\"s\",\"ts\":1}",
        "{\"ph\":\"b\",\"ts\":1}",
        "{\"ph\":\"C\",\"ts\":1}",
        "{\"ph\":\"C\",\"ts\":1,\"args\":{\"a\":\"b\"}}",
        "{\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":\"\"}}",
        "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":NaN}}",
        "{\"ph\":\"M\",\"name\":\"thread_name\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_str_eq(put(bad[i]), "");
}
END_TEST

START_TEST(refuses_invalid_json)
{
    static const struct {
        const char *text;
        uint64_t at;
    } bad[] = {{"{\"a\":1,}", 7},
               {"{\"a\" 1}", 5},
               {"{\"a\":tru}", 5},
               {"{\"a\":'b'}", 5},
               {"{\"a\":01}", 5}};
    const char *why;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t at = 99;
        ck_assert_msg(!foreign_parse(reader, bad[i].text, strlen(bad[i].text), &why, &at), "%s",
                      bad[i].text);
        ck_assert_msg(at + 3 > bad[i].at && at < bad[i].at + 3, "%s: at %d", bad[i].text, (int)at);
    }
    int64_t n;
    uint64_t at;
    ck_assert(foreign_parse(reader, "1763000000000000000", 19, &why, &at));
    ck_assert(foreign_integer(reader, &n) && n == 1763000000000000000);
    ck_assert(foreign_parse(reader, "1.5", 3, &why, &at) && !foreign_integer(reader, &n));
}
END_TEST

START_TEST(quotes_huge_integers)
{
    check_put("{\"ph\":\"i\",\"ts\":0,\"a\":9223372036854775807,\"b\":9223372036854775808,"
              "\"c\":-9223372036854775808,\"d\":-9223372036854775809,"
              "\"e\":[18446744073709551615],\"f\":\"18446744073709551615\","
              "\"g\":18446744073709551615.0,\"h\":1e30}",
              "{\"ph\": \"i\", \"pid\": 30000000, \"tid\": 30000000, \"ts\": 0.500, "
              "\"a\": 9223372036854775807, \"b\": \"9223372036854775808\", "
              "\"c\": -9223372036854775808, \"d\": \"-9223372036854775809\", "
              "\"e\": [\"18446744073709551615\"], \"f\": \"18446744073709551615\", "
              "\"g\": 18446744073709551615.0, \"h\": 1e30},\n");
    int64_t n;
    uint64_t at;
    const char *why, *text = "18446744073709551615";
    ck_assert(foreign_parse(reader, text, strlen(text), &why, &at));
    ck_assert(!foreign_integer(reader, &n));
}
END_TEST

/* As in JSON.parse(), also for escaped keys. */
START_TEST(last_member_of_a_key_wins)
{
    check_put("{\"ph\":\"i\",\"ph\":\"M\",\"ts\":0,\"\\u0070h\":\"i\",\"a\":{\"b\":1,\"b\":[2]}}",
              "{\"ph\": \"i\", \"pid\": 30000000, \"tid\": 30000000, \"ts\": 0.500, "
              "\"a\": {\"b\": [2]}},\n");
    struct buf event = {0};
    buf_puts(&event, "{\"ph\":\"i\",\"ts\":0,\"a\":{");
    for (unsigned i = 0; i < 60000; i++)
        buf_printf(&event, "%s\"k%u\":%u", i ? "," : "", i % 20000, i);
    buf_puts(&event, "}}");
    buf_put(&event, "", 1);
    char *after = repeated(put(event.data), "", 0, "");
    unsigned members = 0;
    for (const char *at = after; (at = strstr(at, "\"k")) != NULL; at++)
        members++;
    ck_assert_uint_eq(members, 20000);
    ck_assert_ptr_nonnull(strstr(after, "{\"k0\": 40000, "));
    ck_assert_ptr_nonnull(strstr(after, "\"k19999\": 59999}"));
    free(after);
    buf_free(&event);
}
END_TEST

/* An event is imported whole or not at all. */
START_TEST(imports_no_partial_event_without_memory)
{
    if (!alloc_is_ours)
        return;
    struct buf event = {0};
    buf_puts(&event, "{\"ph\": \"i\", \"ts\": 0, \"\\u0061\": [1, 2.5], \"args\": {");
    for (unsigned i = 0; i < 2000; i++)
        buf_printf(&event, "%s\"k%u\": %u", i ? ", " : "", i % 1900, i);
    buf_puts(&event, "}}");
    buf_put(&event, "", 1);
    char *whole = repeated(put(event.data), "", 0, "");
    unsigned failed = 0;
    for (size_t size = 1; size < 1u << 20; size *= 2) {
        const char *why = "";
        uint64_t at = 99;
        struct foreign *fresh = foreign_new();
        foreign_begin(fresh, 3, 500, false);
        alloc_fail_from(size); /* no ck_assert() while allocations fail: it allocates */
        bool parsed = foreign_parse(fresh, event.data, event.len - 1, &why, &at);
        alloc_fail_from(0);
        buf_reset(&out);
        failed += !parsed;
        ck_assert_int_eq(foreign_put(fresh, &out), parsed);
        ck_assert_str_eq(parsed ? "no memory" : why, "no memory");
        ck_assert(parsed ? strncmp(out.data, whole, out.len) == 0 : out.len == 0);
        ck_assert_msg(foreign_parse(fresh, event.data, event.len - 1, &why, &at), "%s", why);
        foreign_free(fresh);
    }
    ck_assert_uint_ge(failed, 14); /* up to the buffer of the values: 128 KiB */
    free(whole);
    buf_free(&event);
}
END_TEST

Suite *suite_split(void)
{
    Suite *suite = suite_create("split");
    TCase *text = tcase_create("text");
    tcase_add_test(text, splits_objects_and_arrays);
    tcase_add_test(text, accepts_an_array_without_its_end);
    tcase_add_test(text, refuses_text_that_is_no_trace);
    tcase_add_test(text, skips_values_that_are_too_long);
    tcase_add_test(text, refuses_endless_text);
    tcase_add_test(text, refuses_deep_nesting);
    tcase_add_test(text, reads_microseconds_as_ns);
    suite_add_tcase(suite, text);
    TCase *events = tcase_create("events");
    tcase_add_checked_fixture(events, setup, teardown);
    tcase_add_test(events, imports_a_span);
    tcase_add_test(events, imports_steps);
    tcase_add_test(events, numbers_rows_of_other_types);
    tcase_add_test(events, moves_equal_ids_alike);
    tcase_add_test(events, moves_ids_in_args);
    tcase_add_test(events, writes_numbers_that_readers_accept);
    tcase_add_test(events, repairs_strings);
    tcase_add_test(events, imports_row_names);
    tcase_add_test(events, drops_events_that_no_reader_accepts);
    tcase_add_test(events, refuses_invalid_json);
    tcase_add_test(events, quotes_huge_integers);
    tcase_add_test(events, last_member_of_a_key_wins);
    tcase_add_test(events, imports_no_partial_event_without_memory);
    suite_add_tcase(suite, events);
    return suite;
}
