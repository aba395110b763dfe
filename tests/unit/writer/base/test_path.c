/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/base/path.h: templates, their errors, gzip names and the names of part
 * files. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "writer/base/path.h"

Suite *suite_path(void);

static const struct path_var vars[] = {
    {"run_name", "awesome-training-run"},
    {"rank", "0"},
    {"batch", "42"},
    {"slashes", "a/b/../c"},
    {"dot", "."},
    {"dots", ".."},
    {"empty", ""},
    {"control", "a\nb\x7f"},
    {"braces", "{rank}"},
    {"utf8", "l\xc3\xa4uft"},
};
static const char *const names[] = {"run_name", "rank", "batch"};
enum { VARS = sizeof vars / sizeof vars[0] };

static const char *expand(const char *text)
{
    static char out[PATH_SIZE];
    struct path_error error;
    ck_assert_msg(path_expand(text, vars, VARS, out, sizeof out, &error) == PATH_OK, "%s", text);
    return out;
}

START_TEST(replaces_variables)
{
    ck_assert_str_eq(expand("rank{rank}.{batch}.pt.trace.json"), "rank0.42.pt.trace.json");
    ck_assert_str_eq(expand("{run_name}/torch_traces"), "awesome-training-run/torch_traces");
    ck_assert_str_eq(expand("{rank}{rank}"), "00");
    ck_assert_str_eq(expand("plain"), "plain");
    ck_assert_str_eq(expand(""), "");
}
END_TEST

START_TEST(doubled_braces_become_literal_braces)
{
    ck_assert_str_eq(expand("{{rank}}"), "{rank}");
    ck_assert_str_eq(expand("{{{rank}}}"), "{0}");
    ck_assert_str_eq(expand("a{{"), "a{");
    ck_assert_str_eq(expand("}}a"), "}a");
    ck_assert_str_eq(expand("{braces}"), "{rank}");
}
END_TEST

START_TEST(values_stay_in_their_path_component)
{
    ck_assert_str_eq(expand("x/{slashes}"), "x/a_b_.._c");
    ck_assert_str_eq(expand("{dot}/x"), "_/x");
    ck_assert_str_eq(expand("{dots}/x"), "__/x");
    ck_assert_str_eq(expand("{empty}/x"), "_/x");
    ck_assert_str_eq(expand("{control}"), "a_b_");
    ck_assert_str_eq(expand("{utf8}"), "l\xc3\xa4uft");
}
END_TEST

START_TEST(errors_report_their_position)
{
    static const struct {
        const char *text;
        enum path_status status;
        size_t position;
        const char *name;
    } rows[] = {
        {"ab{nope}", PATH_UNKNOWN_VARIABLE, 2, "nope"},
        {"{}", PATH_UNKNOWN_VARIABLE, 0, ""},
        {"{rank }", PATH_UNKNOWN_VARIABLE, 0, "rank "},
        {"{Rank}", PATH_UNKNOWN_VARIABLE, 0, "Rank"},
        {"{rank:02d}", PATH_UNKNOWN_VARIABLE, 0, "rank:02d"},
        {"{ran}", PATH_UNKNOWN_VARIABLE, 0, "ran"},
        {"{rank}{a_name_that_is_much_longer_than_the_room_there_is}", PATH_UNKNOWN_VARIABLE, 6,
         "a_name_that_is_much_longer_than"},
        {"{", PATH_UNBALANCED, 0, ""},
        {"}", PATH_UNBALANCED, 0, ""},
        {"rank{rank", PATH_UNBALANCED, 4, ""},
        {"rank}", PATH_UNBALANCED, 4, ""},
        {"{a{rank}", PATH_UNBALANCED, 0, ""},
        {"{{rank}", PATH_UNBALANCED, 6, ""},
        {"{{{", PATH_UNBALANCED, 2, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[64] = "old";
        for (int check = 0; check < 2; check++) {
            struct path_error error;
            memset(&error, 0x55, sizeof error);
            enum path_status status =
                check ? path_check(rows[i].text, names, 3, &error)
                      : path_expand(rows[i].text, vars, VARS, out, sizeof out, &error);
            ck_assert_msg(status == rows[i].status, "%s: %d", rows[i].text, status);
            ck_assert_int_eq(error.status, status);
            ck_assert_msg(error.position == rows[i].position, "%s: at %zu", rows[i].text,
                          error.position);
            ck_assert_str_eq(error.name, rows[i].name);
        }
        ck_assert_str_eq(out, "");
        ck_assert_int_eq(path_check(rows[i].text, names, 3, NULL), rows[i].status);
    }
    ck_assert_int_eq(path_check("{{x}}{rank}", names, 3, NULL), PATH_OK);
    ck_assert_int_eq(path_check("", names, 3, NULL), PATH_OK);
}
END_TEST

START_TEST(describes_errors)
{
    struct path_error error;
    char text[200];
    path_check("{nope}", names, 3, &error);
    size_t length = path_describe(&error, names, 3, text, sizeof text);
    ck_assert_str_eq(text, "unknown variable {nope}; allowed: {run_name} {rank} {batch}");
    ck_assert_uint_eq(length, strlen(text));
    path_check("ab{", names, 3, &error);
    path_describe(&error, names, 3, text, sizeof text);
    ck_assert_str_eq(text, "unbalanced brace at character 3 (write {{ or }} for a brace)");
    path_check("{nope}", names, 3, &error);
    memset(text, 'x', sizeof text);
    length = path_describe(&error, names, 3, text, 50);
    ck_assert_uint_lt(length, 50);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_uint_eq(path_describe(&error, names, 3, text, 0), 0);
}
END_TEST

START_TEST(rejects_paths_longer_than_the_buffer)
{
    char out[8];
    struct path_error error;
    ck_assert_int_eq(path_expand("1234567", vars, VARS, out, sizeof out, NULL), PATH_OK);
    ck_assert_str_eq(out, "1234567");
    ck_assert_int_eq(path_expand("12345678", vars, VARS, out, sizeof out, &error), PATH_TOO_LONG);
    ck_assert_int_eq(error.status, PATH_TOO_LONG);
    ck_assert_str_eq(out, "");
    ck_assert_int_eq(path_expand("123456{batch}", vars, VARS, out, sizeof out, NULL),
                     PATH_TOO_LONG);
    ck_assert_int_eq(path_expand("{run_name}", vars, VARS, out, sizeof out, NULL), PATH_TOO_LONG);
    ck_assert_int_eq(path_expand("", vars, VARS, out, 0, NULL), PATH_TOO_LONG);
    ck_assert_int_eq(path_expand("", vars, VARS, out, 1, NULL), PATH_OK);
}
END_TEST

static const char *trace(const char *folder, const char *file, bool gzip)
{
    static char out[PATH_SIZE];
    ck_assert_msg(path_trace(folder, file, vars, VARS, gzip, out, sizeof out, NULL, NULL) ==
                      PATH_OK,
                  "%s + %s", folder, file);
    return out;
}

START_TEST(joins_folder_and_file)
{
    ck_assert_str_eq(trace("{run_name}/torch_traces", "rank{rank}.{batch}.pt.trace.json", false),
                     "awesome-training-run/torch_traces/rank0.42.pt.trace.json");
    ck_assert_str_eq(trace("/data/", "x", false), "/data/x");
    ck_assert_str_eq(trace("/data///", "x", false), "/data/x");
    ck_assert_str_eq(trace("/", "x", false), "/x");
    ck_assert_str_eq(trace("", "x", false), "x");
    ck_assert_str_eq(trace("d", "/x", false), "d/x");
    ck_assert_str_eq(trace("d", "e/{rank}", false), "d/e/0");
    ck_assert_str_eq(trace("..", "x", false), "../x");
}
END_TEST

START_TEST(adds_gz_to_gzip_names)
{
    ck_assert_str_eq(trace("d", "x.json", true), "d/x.json.gz");
    ck_assert_str_eq(trace("d", "x.json.gz", false), "d/x.json.gz");
    ck_assert_str_eq(trace("d", "x.json.gz", true), "d/x.json.gz");
    ck_assert_str_eq(trace("d", "x.GZ", true), "d/x.GZ");
    ck_assert(!path_is_gzip(".gz"));
    ck_assert(!path_is_gzip("d/.gz"));
    ck_assert(!path_is_gzip("d.gz/x"));
    ck_assert(!path_is_gzip("xgz"));
    ck_assert(!path_is_gzip(""));
    ck_assert(path_is_gzip("x.gz"));
}
END_TEST

START_TEST(rejects_traces_without_a_file_name)
{
    static const char *const files[] = {"", "/", "d/", ".", "..", "d/.."};
    char out[PATH_SIZE] = "old";
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct path_error error;
        ck_assert_msg(path_trace("d", files[i], vars, VARS, true, out, sizeof out, NULL, &error) ==
                          PATH_NO_NAME,
                      "%s", files[i]);
        ck_assert_int_eq(error.status, PATH_NO_NAME);
        ck_assert_str_eq(out, "");
    }
}
END_TEST

START_TEST(leaves_room_for_the_part_name)
{
    char file[400], out[PATH_SIZE], part[PATH_SIZE], folder[PATH_SIZE + 100];
    struct path_error error;
    int whole = 0;
    memset(file, 'x', sizeof file);
    for (size_t length = 1; length < sizeof file; length++) {
        bool cut;
        file[length] = '\0';
        ck_assert_int_eq(path_trace("d", file, vars, VARS, true, out, sizeof out, &cut, NULL),
                         PATH_OK);
        ck_assert(path_part_name(out, INT_MAX, INT64_MIN, part, sizeof part));
        ck_assert_uint_le(strlen(strchr(part, '/') + 1), PATH_NAME_MAX);
        whole += !cut && strncmp(out + 2, file, length) == 0;
        file[length] = 'x';
    }
    ck_assert_int_eq(whole, PATH_NAME_MAX - PATH_PART_MAX - 3); /* without .gz */

    for (size_t i = 0; i < sizeof folder - 1; i++)
        folder[i] = i % 100 == 99 ? '/' : 'x';
    for (size_t length = PATH_SIZE - 100; length < sizeof folder - 1; length++) {
        char kept = folder[length];
        folder[length] = '\0';
        if (path_trace(folder, "x", vars, VARS, false, out, sizeof out, NULL, &error) == PATH_OK)
            ck_assert(path_part_name(out, INT_MAX, INT64_MIN, part, sizeof part));
        else
            ck_assert_int_eq(error.status, PATH_TOO_LONG);
        folder[length] = kept;
    }
    folder[sizeof folder - 1] = '\0';
    ck_assert_int_eq(path_trace(folder, "x", vars, VARS, false, out, sizeof out, NULL, &error),
                     PATH_TOO_LONG);
}
END_TEST

/* A shortened name keeps its ending, by which readers recognise a trace. A hash of the whole name
 * keeps names apart that differ only in the removed part. */
START_TEST(shortens_long_components)
{
    char folder[400], file[400], first[PATH_SIZE], out[PATH_SIZE], expected[PATH_SIZE];
    bool cut = false;
    memset(folder, 'f', 256);
    strcpy(folder + 256, "/kept");
    memset(file, 'x', 300);
    strcpy(file + 300, "{rank}.pt.trace.json");
    ck_assert_int_eq(path_trace(folder, file, vars, VARS, true, first, sizeof first, &cut, NULL),
                     PATH_OK);
    ck_assert(cut);
    folder[191] = '\0';
    file[174] = '\0';
    snprintf(expected, sizeof expected, "%s~%s/kept/%s~%s.pt.trace.json.gz", folder, "931ae1c5",
             file, "cf94bae3");
    ck_assert_str_eq(first, expected);
    folder[191] = 'f';
    file[174] = 'x';
    strcpy(file + 300, "1.pt.trace.json");
    ck_assert_int_eq(path_trace(folder, file, vars, VARS, true, out, sizeof out, &cut, NULL),
                     PATH_OK);
    ck_assert_uint_eq(strlen(out), strlen(first));
    ck_assert_str_ne(out, first);
    strcpy(folder, "d");
    memset(file, 'x', 190);
    for (int i = 190; i < 300; i += 2)
        memcpy(file + i, "\xc3\xa4", 2);
    strcpy(file + 300, ".no");
    ck_assert_int_eq(path_trace(folder, file, vars, VARS, false, out, sizeof out, &cut, NULL),
                     PATH_OK);
    ck_assert_uint_eq(strlen(out), 2 + 190 + 9);
    ck_assert_int_eq(path_trace("d", "short", vars, VARS, false, out, sizeof out, &cut, NULL),
                     PATH_OK);
    ck_assert(!cut);
}
END_TEST

START_TEST(reports_errors_in_folder_and_file)
{
    char out[PATH_SIZE];
    struct path_error error;
    ck_assert_int_eq(path_trace("d{", "x", vars, VARS, false, out, sizeof out, NULL, &error),
                     PATH_UNBALANCED);
    ck_assert_uint_eq(error.position, 1);
    ck_assert_int_eq(path_trace("d", "/x{nope}", vars, VARS, false, out, sizeof out, NULL, &error),
                     PATH_UNKNOWN_VARIABLE);
    ck_assert_uint_eq(error.position, 2);
    ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(builds_part_names)
{
    char out[64];
    ck_assert(path_part_name("d/rank0.42.pt.trace.json.gz", 8044, 38, out, sizeof out));
    ck_assert_str_eq(out, "d/rank0.42.pt.trace.json.gz.8044.38.part");
    ck_assert(!path_part_name("d/rank0.42.pt.trace.json.gz", 8044, 38, out, 40));
    ck_assert(path_part_name("d/rank0.42.pt.trace.json.gz", 8044, 38, out, 41));
}
END_TEST

Suite *suite_path(void)
{
    Suite *suite = suite_create("path");
    TCase *tcase = tcase_create("path");
    tcase_add_test(tcase, replaces_variables);
    tcase_add_test(tcase, doubled_braces_become_literal_braces);
    tcase_add_test(tcase, values_stay_in_their_path_component);
    tcase_add_test(tcase, errors_report_their_position);
    tcase_add_test(tcase, describes_errors);
    tcase_add_test(tcase, rejects_paths_longer_than_the_buffer);
    tcase_add_test(tcase, joins_folder_and_file);
    tcase_add_test(tcase, adds_gz_to_gzip_names);
    tcase_add_test(tcase, rejects_traces_without_a_file_name);
    tcase_add_test(tcase, leaves_room_for_the_part_name);
    tcase_add_test(tcase, shortens_long_components);
    tcase_add_test(tcase, reports_errors_in_folder_and_file);
    tcase_add_test(tcase, builds_part_names);
    suite_add_tcase(suite, tcase);
    return suite;
}
