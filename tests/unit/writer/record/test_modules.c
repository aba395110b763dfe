/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/modules.h (paths by number, forward operators by their numbers) and
 * preload/torch/module_table.h. */
#include "writer/record/modules.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "preload/torch/module_table.h"

static uint32_t id_of(const char *path)
{
    return modules_id(path, (uint32_t)strlen(path));
}

static void check_path(uint32_t id, const char *path)
{
    uint32_t len = 0;
    const char *found = modules_path(id, &len);
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_eq(len, strlen(path));
    ck_assert_int_eq(memcmp(found, path, len), 0);
}

START_TEST(gives_each_path_one_number)
{
    uint32_t a = id_of("Net.layer1"), b = id_of("Net.layer10");
    ck_assert_uint_ne(a, 0);
    ck_assert_uint_ne(b, 0);
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(id_of("Net.layer1"), a);
    ck_assert_uint_eq(modules_id("Net.layer1 and more", 10), a);
    check_path(a, "Net.layer1");
    check_path(b, "Net.layer10");
}
END_TEST

START_TEST(unknown_numbers_have_no_path)
{
    uint32_t len;
    id_of("Net");
    ck_assert_ptr_null(modules_path(0, &len));
    ck_assert_ptr_null(modules_path(1u << 30, &len));
    ck_assert_ptr_null(modules_path(UINT64_MAX, &len));
}
END_TEST

START_TEST(truncates_long_paths)
{
    char path[2 * MODULE_PATH];
    uint32_t len = 0;
    memset(path, 'x', sizeof path);
    ck_assert_ptr_nonnull(modules_path(modules_id(path, sizeof path), &len));
    ck_assert_uint_eq(len, MODULE_PATH);
}
END_TEST

/* A full table gives no more numbers, and earlier numbers stay valid. */
START_TEST(paths_beyond_the_limit_get_no_number)
{
    char path[64];
    uint32_t first = id_of("the first"), n = 0, id;
    do {
        snprintf(path, sizeof path, "Net.layer%u", n++);
        id = id_of(path);
    } while (id != 0 && n < 1000000);
    ck_assert_uint_gt(n, 50000);
    ck_assert_uint_lt(n, 1000000);
    ck_assert_uint_eq(id_of(path), 0);
    ck_assert_uint_eq(id_of("the first"), first);
    check_path(first, "the first");
    check_path(id_of("Net.layer77"), "Net.layer77");
}
END_TEST

#define THREADS 4
#define PATHS   3000

static void *add_all(void *numbers)
{
    for (uint32_t i = 0; i < PATHS; i++) {
        char path[64];
        snprintf(path, sizeof path, "Net.block%u.conv", i);
        ((uint32_t *)numbers)[i] = id_of(path);
    }
    return NULL;
}

START_TEST(threads_get_the_same_numbers)
{
    static uint32_t numbers[THREADS][PATHS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_all, numbers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        ck_assert_int_eq(memcmp(numbers[i], numbers[0], sizeof numbers[0]), 0);
    check_path(numbers[0][PATHS - 1], "Net.block2999.conv");
}
END_TEST

START_TEST(links_forward_operators_by_number)
{
    ck_assert_uint_eq(modules_linked(1, 5), 0);
    modules_link(1, 5, 7);
    modules_link(1, 6, 8);
    modules_link(2, 5, 9);
    ck_assert_uint_eq(modules_linked(1, 5), 7);
    ck_assert_uint_eq(modules_linked(1, 6), 8);
    ck_assert_uint_eq(modules_linked(2, 5), 9);
    ck_assert_uint_eq(modules_linked(3, 5), 0);
    modules_link(1, 5, 10); /* the last operator made the node */
    ck_assert_uint_eq(modules_linked(1, 5), 10);
    modules_link(1, 5, 0);
    ck_assert_uint_eq(modules_linked(1, 5), 0);
}
END_TEST

/* An old link is forgotten, never confused with another. */
START_TEST(forgets_old_forward_operators)
{
    for (int64_t i = 0; i < 1 << 20; i++)
        modules_link(1, i, (uint32_t)(i % 1000) + 1);
    ck_assert_uint_eq(modules_linked(1, (1 << 20) - 1), ((1 << 20) - 1) % 1000 + 1);
    ck_assert_uint_eq(modules_linked(1, 3), 0);
}
END_TEST

START_TEST(finds_modules_by_object)
{
    static char objects[1000];
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert(module_table_put(&objects[i], i + 1));
    for (uint32_t i = 0; i < 1000; i += 2)
        module_table_remove(&objects[i]);
    module_table_remove(&objects[0]); /* removed already */
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(module_table_find(&objects[i]), i % 2 ? i + 1 : 0);
    ck_assert(module_table_put(&objects[1], 5));
    ck_assert_uint_eq(module_table_find(&objects[1]), 5);
    module_table_clear();
    ck_assert_uint_eq(module_table_find(&objects[1]), 0);
    module_table_remove(&objects[1]);
}
END_TEST

START_TEST(refuses_modules_beyond_the_limit)
{
    uintptr_t n = 1;
    while (n < 4 * MODULE_TABLE_MOST && module_table_put((const void *)(n * 16), 1))
        n++;
    ck_assert_uint_ge(n, MODULE_TABLE_MOST);
    ck_assert_uint_lt(n, 4 * MODULE_TABLE_MOST);
    ck_assert_uint_eq(module_table_find((const void *)(uintptr_t)32), 1);
    module_table_clear();
}
END_TEST

Suite *suite_modules(void)
{
    Suite *s = suite_create("modules");
    TCase *c = tcase_create("modules");
    tcase_add_test(c, gives_each_path_one_number);
    tcase_add_test(c, unknown_numbers_have_no_path);
    tcase_add_test(c, truncates_long_paths);
    tcase_add_test(c, paths_beyond_the_limit_get_no_number);
    tcase_add_test(c, threads_get_the_same_numbers);
    tcase_add_test(c, links_forward_operators_by_number);
    tcase_add_test(c, forgets_old_forward_operators);
    tcase_add_test(c, finds_modules_by_object);
    tcase_add_test(c, refuses_modules_beyond_the_limit);
    suite_add_tcase(s, c);
    return s;
}
