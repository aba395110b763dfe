/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/remote_names.h: each name is unique, at a cost that does not grow
 * with their number. */
#include "preload/settings/remote_names.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *suite_remote_names(void);

struct source {
    const char *text;
    unsigned most;  /* the largest number that make() accepts; 0: unlimited */
    unsigned calls; /* how often make() was called */
};

static bool make(void *arg, unsigned number, char *name, unsigned long size)
{
    struct source *source = arg;
    source->calls++;
    if (source->most && number > source->most)
        return false;
    if (number == 1)
        snprintf(name, size, "%s", source->text);
    else
        snprintf(name, size, "%s-%u", source->text, number);
    return true;
}

static struct remote_names names;
static char name[64];

static const char *take(const char *text)
{
    struct source source = {.text = text};
    ck_assert(remote_names_take(&names, make, &source, name, sizeof name));
    return name;
}

START_TEST(gives_each_name_out_once)
{
    ck_assert_str_eq(take("a"), "a");
    ck_assert_str_eq(take("b"), "b");
    ck_assert_str_eq(take("a-2"), "a-2"); /* the plain name of another trace */
    ck_assert_str_eq(take("a"), "a-3");
    ck_assert_str_eq(take("a"), "a-4");
    ck_assert_str_eq(take("a-4"), "a-4-2"); /* a plain name that was given out above */
    ck_assert_str_eq(take("b"), "b-2");
    ck_assert_str_eq(take(""), "");
    ck_assert_str_eq(take(""), "-2");
}
END_TEST

START_TEST(numbers_equal_names_in_linear_time)
{
    struct source source = {.text = "rank0.json"};
    char expected[64];
    for (unsigned n = 1; n <= 10000; n++) {
        ck_assert(remote_names_take(&names, make, &source, name, sizeof name));
        snprintf(expected, sizeof expected, n == 1 ? "rank0.json" : "rank0.json-%u", n);
        ck_assert_str_eq(name, expected);
    }
    ck_assert_msg(source.calls < 20000, "%u names were made", source.calls);
    ck_assert_uint_eq(names.used, 10000);
    ck_assert_uint_le(names.room, 16384);
}
END_TEST

START_TEST(keeps_many_different_names_unchanged)
{
    char text[32];
    for (int n = 0; n < 10000; n++) {
        snprintf(text, sizeof text, "rank0.%d.json", n);
        ck_assert_str_eq(take(text), text);
    }
    for (int n = 0; n < 10000; n += 999) {
        char expected[40];
        snprintf(text, sizeof text, "rank0.%d.json", n);
        snprintf(expected, sizeof expected, "%s-2", text);
        ck_assert_str_eq(take(text), expected);
    }
}
END_TEST

START_TEST(fails_when_the_maker_has_no_name)
{
    struct source source = {.text = "a", .most = 1};
    ck_assert(remote_names_take(&names, make, &source, name, sizeof name));
    ck_assert(!remote_names_take(&names, make, &source, name, sizeof name));
}
END_TEST

static void forget(void)
{
    free(names.slots);
    memset(&names, 0, sizeof names);
}

Suite *suite_remote_names(void)
{
    Suite *suite = suite_create("remote_names");
    TCase *tcase = tcase_create("names");
    tcase_add_checked_fixture(tcase, NULL, forget);
    tcase_add_test(tcase, gives_each_name_out_once);
    tcase_add_test(tcase, numbers_equal_names_in_linear_time);
    tcase_add_test(tcase, keeps_many_different_names_unchanged);
    tcase_add_test(tcase, fails_when_the_maker_has_no_name);
    suite_add_tcase(suite, tcase);
    return suite;
}
