/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of finding functions in loaded objects, with those of the C library. Runs on the main
 * thread. libcheck forks a process per test, so a test does not see what another has loaded. */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "preload/link/resolve.h"
#include "writer/writer.h"

/* A library of every glibc with a function of its own. This program is not linked to it. */
#define SPARE        "libresolv.so.2"
#define SPARE_SYMBOL "inet_net_pton"

/* All symbols of a platform's first release have this version. */
#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

static const struct resolve_library nowhere = {NULL, {NULL}, NULL};
static const struct resolve_library versioned = {FIRST_VERSION, {NULL}, NULL};
static const struct resolve_library wrong_version = {"NO_SUCH_9", {NULL}, NULL};
static const struct resolve_library by_soname = {NULL, {"libnone.so.1", SPARE}, NULL};
static const struct resolve_library by_prefix = {NULL, {"libnone.so.1"}, "libresolv"};
static const struct resolve_library by_version = {FIRST_VERSION, {NULL}, "libresolv"};

static void *load_spare(void)
{
    void *handle = dlopen(SPARE, RTLD_LAZY | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    return handle;
}

START_TEST(global_scope_comes_first)
{
    void *real = dlsym(RTLD_DEFAULT, "getppid");
    ck_assert_ptr_eq(resolve_next("getppid", &nowhere, NULL), real);
    ck_assert_ptr_eq(resolve_next("getppid", &versioned, NULL), real);
    ck_assert_ptr_null(resolve_next("getppid", &wrong_version, NULL));
    ck_assert_ptr_null(resolve_next("no_such_function", &nowhere, NULL));
}
END_TEST

START_TEST(local_objects_are_found_by_soname_and_by_file_name)
{
    ck_assert_ptr_null(resolve_next(SPARE_SYMBOL, &by_soname, NULL));
    ck_assert_ptr_null(resolve_next(SPARE_SYMBOL, &by_prefix, NULL));
    ck_assert_ptr_null(dlopen(SPARE, RTLD_LAZY | RTLD_NOLOAD)); /* the lookup did not load it */
    void *real = dlsym(load_spare(), SPARE_SYMBOL);
    ck_assert_ptr_null(resolve_next(SPARE_SYMBOL, &nowhere, NULL));
    ck_assert_ptr_eq(resolve_next(SPARE_SYMBOL, &by_soname, NULL), real);
    ck_assert_ptr_eq(resolve_next(SPARE_SYMBOL, &by_prefix, NULL), real);
    ck_assert_ptr_eq(resolve_next(SPARE_SYMBOL, &by_version, NULL), real);
}
END_TEST

START_TEST(scope_of_the_calling_object_is_searched)
{
    void *real = dlsym(load_spare(), SPARE_SYMBOL);
    ck_assert_ptr_eq(resolve_next(SPARE_SYMBOL, &nowhere, real), real);
}
END_TEST

START_TEST(what_was_found_stays_loaded)
{
    void *handle = load_spare();
    ck_assert_ptr_nonnull(resolve_next(SPARE_SYMBOL, &by_soname, NULL));
    for (int i = 0; i < 4; i++)
        dlclose(handle);
    ck_assert_ptr_nonnull(dlopen(SPARE, RTLD_LAZY | RTLD_NOLOAD));
}
END_TEST

/* Whoever asks this way must forget the answer when an object is closed. So cprof does not keep
 * the object loaded. */
START_TEST(what_a_caller_finds_in_its_own_scope_can_be_unloaded)
{
    void *handle = load_spare(), *real = dlsym(handle, SPARE_SYMBOL);
    ck_assert_ptr_eq(resolve_for_caller(SPARE_SYMBOL, &nowhere, real), real);
    uint64_t before = atomic_load(&resolve_closings);
    ck_assert(!resolve_is_closing(before));
    ck_assert_int_eq(dlclose(handle), 0);
    ck_assert_ptr_null(dlopen(SPARE, RTLD_LAZY | RTLD_NOLOAD));
    ck_assert_uint_ne(atomic_load(&resolve_closings), before);
    ck_assert(!resolve_is_closing(atomic_load(&resolve_closings)));
}
END_TEST

START_TEST(own_functions_are_never_returned)
{
    ck_assert(resolve_is_own((const void *)&load_spare));
    ck_assert(!resolve_is_own(dlsym(RTLD_DEFAULT, "getppid")));
    ck_assert(!resolve_is_own(NULL));
}
END_TEST

START_TEST(what_is_behind_is_never_our_own)
{
    ck_assert_ptr_eq(resolve_behind("getppid"), dlsym(RTLD_DEFAULT, "getppid"));
    ck_assert_ptr_null(resolve_behind("no_such_function"));
    ck_assert_ptr_nonnull(resolve_behind("dlclose"));
    ck_assert(!resolve_is_own(resolve_behind("dlclose")));
}
END_TEST

/* A function of an object, and whether the object is hidden. */
struct wanted {
    const char *soname, *name;
    void *found;
    bool hide;
};

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct wanted *w = data;
    struct elf_loaded o;
    (void)size;
    if (!elf_loaded(info, &o) || strcmp(o.soname, w->soname) != 0)
        return 0;
    w->found = elf_loaded_function(&o, w->name);
    if (w->hide)
        ck_assert(elf_loaded_hide(&o));
    return 1;
}

START_TEST(symbols_are_found_without_the_loader)
{
    struct wanted w = {.soname = "libc.so.6", .name = "getppid"};
    ck_assert_int_eq(loader_walk(look, &w), 1);
    ck_assert_ptr_eq(w.found, dlsym(RTLD_DEFAULT, "getppid"));
    w.name = "no_such_function";
    loader_walk(look, &w);
    ck_assert_ptr_null(w.found);
    w.name = "environ"; /* not a function */
    loader_walk(look, &w);
    ck_assert_ptr_null(w.found);
}
END_TEST

START_TEST(an_object_is_hidden)
{
    void *handle = load_spare(), *real = dlsym(handle, SPARE_SYMBOL);
    struct wanted w = {.soname = SPARE, .name = SPARE_SYMBOL, .hide = true};
    ck_assert_ptr_nonnull(real);
    ck_assert_int_eq(loader_walk(look, &w), 1);
    ck_assert_ptr_null(dlsym(handle, SPARE_SYMBOL));
    ck_assert_int_eq(loader_walk(look, &w), 1);
    ck_assert_ptr_eq(w.found, real);
}
END_TEST

START_TEST(errno_and_dlerror_stay_clean)
{
    errno = 77;
    resolve_next("no_such_function", &by_prefix, NULL);
    ck_assert_int_eq(errno, 77);
    resolve_in("libnone.so", "no_such_function");
    ck_assert_int_eq(errno, 77);
    ck_assert_ptr_null(dlerror());
}
END_TEST

START_TEST(generation_changes_when_something_is_loaded)
{
    uint64_t before = resolve_generation();
    ck_assert_uint_eq(resolve_generation(), before);
    load_spare();
    ck_assert_uint_ne(resolve_generation(), before);
}
END_TEST

START_TEST(objects_are_found_by_file_name)
{
    char path[512] = "", small[4];
    ck_assert(resolve_object("libc.so", path, sizeof path));
    ck_assert_str_eq(strrchr(path, '/'), "/libc.so.6");
    ck_assert(!resolve_object("libc.so", small, sizeof small));
    ck_assert(!resolve_object("ibc.so", path, sizeof path));
    ck_assert(!resolve_object("libnone.so", path, sizeof path));
    ck_assert(resolve_path_containing("/libc.so", path, sizeof path));
    ck_assert(!resolve_path_containing("/no/such/path", path, sizeof path));
}
END_TEST

START_TEST(functions_are_found_in_one_object)
{
    ck_assert_ptr_eq(resolve_in("libc.so", "getppid"), dlsym(RTLD_DEFAULT, "getppid"));
    ck_assert_ptr_null(resolve_in("libc.so", "no_such_function"));
    ck_assert_ptr_null(resolve_in("libresolv", SPARE_SYMBOL));
    load_spare();
    ck_assert_ptr_nonnull(resolve_in("libresolv", SPARE_SYMBOL));
}
END_TEST

Suite *suite_resolve(void)
{
    Suite *suite = suite_create("resolve");

    TCase *next = tcase_create("next");
    tcase_add_test(next, global_scope_comes_first);
    tcase_add_test(next, local_objects_are_found_by_soname_and_by_file_name);
    tcase_add_test(next, scope_of_the_calling_object_is_searched);
    tcase_add_test(next, what_was_found_stays_loaded);
    tcase_add_test(next, what_a_caller_finds_in_its_own_scope_can_be_unloaded);
    tcase_add_test(next, own_functions_are_never_returned);
    tcase_add_test(next, errno_and_dlerror_stay_clean);
    tcase_add_test(next, what_is_behind_is_never_our_own);
    tcase_add_test(next, generation_changes_when_something_is_loaded);
    suite_add_tcase(suite, next);

    TCase *objects = tcase_create("objects");
    tcase_add_test(objects, objects_are_found_by_file_name);
    tcase_add_test(objects, functions_are_found_in_one_object);
    tcase_add_test(objects, symbols_are_found_without_the_loader);
    tcase_add_test(objects, an_object_is_hidden);
    suite_add_tcase(suite, objects);
    return suite;
}
