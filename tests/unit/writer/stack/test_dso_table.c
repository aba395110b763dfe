/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/stack/dso_table.h: the object of an address, while libraries are loaded and
 * unloaded. */
#include "writer/stack/dso_table.h"

#include <check.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Two libraries of the C library that nothing else in this process uses. libthread_db cannot be
 * opened here, because Debian 13 binds all symbols of its libraries at once. */
#define SPARE        "libresolv.so.2"
#define SPARE_SYMBOL "inet_net_pton"
#define OTHER        "libBrokenLocale.so.1"
#define OTHER_SYMBOL "__ctype_get_mb_cur_max"

static void *open_library(const char *library, const char *symbol, uint64_t *address)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", library);
    *address = (uint64_t)(uintptr_t)dlsym(handle, symbol);
    ck_assert_uint_ne(*address, 0);
    return handle;
}

static void *open_spare(uint64_t *address)
{
    return open_library(SPARE, SPARE_SYMBOL, address);
}

static void check_spare(const struct elf_object *o, uint64_t address)
{
    ck_assert_ptr_nonnull(o);
    ck_assert_msg(strstr(o->path, SPARE) != NULL, "%s", o->path);
    ck_assert(o->start <= address && address < o->end && dso_table_index(o) < DSO_MOST);
}

START_TEST(finds_loaded_objects)
{
    uint64_t mine = (uint64_t)(uintptr_t)&open_spare;
    uint64_t libc = (uint64_t)(uintptr_t)&gnu_get_libc_version; /* sanitizers do not replace it */
    /* the table has not been updated yet */
    ck_assert_ptr_null(dso_table_find(mine, DSO_FIRST));
    dso_table_look();
    ck_assert_uint_eq(dso_table_at(mine), DSO_FIRST);
    const char *path = dso_table_find(mine, DSO_FIRST)->path;
    ck_assert_msg(strcmp(strrchr(path, '/'), "/unit") == 0, "%s", path);
    ck_assert_uint_eq(dso_table_at(libc), DSO_FIRST);
    ck_assert_ptr_ne(dso_table_find(libc, DSO_FIRST), dso_table_find(mine, DSO_FIRST));
    ck_assert_ptr_null(dso_table_find(16, DSO_FIRST));
    ck_assert_ptr_null(dso_table_find(mine, DSO_MOST));
}
END_TEST

START_TEST(finds_unloaded_objects_by_number)
{
    uint64_t address, again;
    uint32_t losses = dso_table_look();
    void *handle = open_spare(&address);
    ck_assert_uint_eq(dso_table_look(), losses);
    ck_assert_uint_eq(dso_table_at(address), DSO_FIRST);
    const struct elf_object *first = dso_table_find(address, DSO_FIRST);
    check_spare(first, address);
    ck_assert_int_eq(dlclose(handle), 0);
    ck_assert_uint_ne(dso_table_look(), losses);
    ck_assert_uint_eq(dso_table_at(address), DSO_GAP);
    ck_assert_ptr_null(dso_table_find(address, DSO_GAP));
    ck_assert_ptr_eq(dso_table_find(address, DSO_FIRST), first);
    ck_assert_uint_eq(dso_table_at((uint64_t)(uintptr_t)&memcpy), DSO_FIRST);

    handle = open_spare(&again);
    if (again == address) { /* the loader reuses the address unless it is taken */
        ck_assert_ptr_eq(dso_table_find(address, DSO_GAP), NULL);
        dso_table_look();
        uint32_t number = dso_table_at(address);
        ck_assert(number != DSO_FIRST && number != DSO_GAP);
        /* the table knows that this is the same library */
        ck_assert_ptr_eq(dso_table_find(address, number), first);
        ck_assert_ptr_eq(dso_table_find(address, DSO_GAP), first);
    }
    dlclose(handle);
}
END_TEST

/* A program that opens and closes a library for weeks. */
START_TEST(reopened_library_takes_no_new_room)
{
    unsigned places = 0;
    bool numbers[64] = {false};
    for (int i = 0; i < 1000; i++) {
        uint64_t address;
        void *handle = open_spare(&address);
        dso_table_look();
        const struct elf_object *o = dso_table_find(address, dso_table_at(address));
        check_spare(o, address);
        ck_assert_uint_lt(dso_table_index(o), 64);
        places += !numbers[dso_table_index(o)];
        numbers[dso_table_index(o)] = true;
        dlclose(handle);
        if (i % 2) /* or it was back before the table was updated */
            dso_table_look();
    }
    ck_assert_uint_le(places, 2);
}
END_TEST

static _Atomic bool going; /* come_and_go() is running */
static _Atomic unsigned wrong;

static bool is_in_library(uint64_t address, const char *library)
{
    uint32_t number = dso_table_at(address);
    /* the other thread is updating the table */
    for (int i = 0; number == DSO_GAP && i < 1000; i++) {
        dso_table_look();
        number = dso_table_at(address);
    }
    const struct elf_object *o = dso_table_find(address, number);
    return o && strstr(o->path, library);
}

static void *come_and_go(void *arg)
{
    static const char *const libraries[2][2] = {{SPARE, SPARE_SYMBOL}, {OTHER, OTHER_SYMBOL}};
    const char *const *library = libraries[*(int *)arg];
    for (int i = 0; i < 1000; i++) {
        uint64_t address;
        void *handle = open_library(library[0], library[1], &address);
        dso_table_look();
        wrong += !is_in_library(address, library[0]);
        dso_table_look();
        dlclose(handle);
        dso_table_look();
    }
    return NULL;
}

static void *stay(void *arg)
{
    (void)arg;
    while (going)
        wrong += !is_in_library((uint64_t)(uintptr_t)&stay, "/unit");
    return NULL;
}

START_TEST(finds_objects_while_threads_load_libraries)
{
    pthread_t threads[3];
    int which[2] = {0, 1};
    dso_table_look();
    going = true;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, &which[i]), 0);
    ck_assert_int_eq(pthread_create(&threads[2], NULL, stay, NULL), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    going = false;
    pthread_join(threads[2], NULL);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

Suite *suite_dso_table(void)
{
    Suite *suite = suite_create("dso_table");
    TCase *all = tcase_create("all");
    tcase_add_test(all, finds_loaded_objects);
    tcase_add_test(all, finds_unloaded_objects_by_number);
    tcase_add_test(all, reopened_library_takes_no_new_room);
    tcase_add_test(all, finds_objects_while_threads_load_libraries);
    suite_add_tcase(suite, all);
    return suite;
}
