/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/link/resolve.h and writer/os/elf_loaded.h with functions of the C library.
 * libcheck forks a process per test, so no test sees the objects that another test has loaded. */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "preload/link/resolve.h"
#include "writer/writer.h"

/* A library that every glibc has and this program is not linked to, and one of its functions. */
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

START_TEST(finds_global_functions_of_the_wanted_version)
{
    void *real = dlsym(RTLD_DEFAULT, "getppid");
    ck_assert_ptr_eq(resolve_next("getppid", &nowhere, NULL), real);
    ck_assert_ptr_eq(resolve_next("getppid", &versioned, NULL), real);
    ck_assert_ptr_null(resolve_next("getppid", &wrong_version, NULL));
    ck_assert_ptr_null(resolve_next("no_such_function", &nowhere, NULL));
}
END_TEST

START_TEST(finds_local_objects_by_soname_and_file_name)
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

START_TEST(searches_the_scope_of_the_caller)
{
    void *real = dlsym(load_spare(), SPARE_SYMBOL);
    ck_assert_ptr_eq(resolve_next(SPARE_SYMBOL, &nowhere, real), real);
}
END_TEST

START_TEST(keeps_the_found_object_loaded)
{
    void *handle = load_spare();
    ck_assert_ptr_nonnull(resolve_next(SPARE_SYMBOL, &by_soname, NULL));
    for (int i = 0; i < 4; i++)
        dlclose(handle);
    ck_assert_ptr_nonnull(dlopen(SPARE, RTLD_LAZY | RTLD_NOLOAD));
}
END_TEST

/* Callers of resolve_for_caller() drop the result when an object is closed, so cprof need not keep
 * the object loaded. */
START_TEST(lets_objects_in_the_callers_scope_unload)
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

START_TEST(recognizes_its_own_functions)
{
    ck_assert(resolve_is_own((const void *)&load_spare));
    ck_assert(!resolve_is_own(dlsym(RTLD_DEFAULT, "getppid")));
    ck_assert(!resolve_is_own(NULL));
}
END_TEST

START_TEST(resolve_behind_skips_its_own_functions)
{
    ck_assert_ptr_eq(resolve_behind("getppid"), dlsym(RTLD_DEFAULT, "getppid"));
    ck_assert_ptr_null(resolve_behind("no_such_function"));
    ck_assert_ptr_nonnull(resolve_behind("dlclose"));
    ck_assert(!resolve_is_own(resolve_behind("dlclose")));
}
END_TEST

/* A function to find, and whether to hide its object. */
struct wanted {
    const char *soname, *name;
    void *found;
    bool hide;
};

static int find_wanted(struct dl_phdr_info *info, size_t size, void *data)
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

START_TEST(finds_functions_without_dlsym)
{
    struct wanted w = {.soname = "libc.so.6", .name = "getppid"};
    ck_assert_int_eq(loader_walk(find_wanted, &w), 1);
    ck_assert_ptr_eq(w.found, dlsym(RTLD_DEFAULT, "getppid"));
    w.name = "no_such_function";
    loader_walk(find_wanted, &w);
    ck_assert_ptr_null(w.found);
    w.name = "environ"; /* not a function */
    loader_walk(find_wanted, &w);
    ck_assert_ptr_null(w.found);
}
END_TEST

START_TEST(hides_an_object_from_dlsym)
{
    void *handle = load_spare(), *real = dlsym(handle, SPARE_SYMBOL);
    struct wanted w = {.soname = SPARE, .name = SPARE_SYMBOL, .hide = true};
    ck_assert_ptr_nonnull(real);
    ck_assert_int_eq(loader_walk(find_wanted, &w), 1);
    ck_assert_ptr_null(dlsym(handle, SPARE_SYMBOL));
    ck_assert_int_eq(loader_walk(find_wanted, &w), 1);
    ck_assert_ptr_eq(w.found, real);
}
END_TEST

START_TEST(keeps_errno_and_dlerror_clean)
{
    errno = 77;
    resolve_next("no_such_function", &by_prefix, NULL);
    ck_assert_int_eq(errno, 77);
    resolve_in("libnone.so", "no_such_function");
    ck_assert_int_eq(errno, 77);
    ck_assert_ptr_null(dlerror());
}
END_TEST

START_TEST(changes_the_generation_when_an_object_loads)
{
    uint64_t before = resolve_generation();
    ck_assert_uint_eq(resolve_generation(), before);
    load_spare();
    ck_assert_uint_ne(resolve_generation(), before);
}
END_TEST

START_TEST(finds_objects_by_file_name)
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

START_TEST(finds_functions_in_one_object)
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
    tcase_add_test(next, finds_global_functions_of_the_wanted_version);
    tcase_add_test(next, finds_local_objects_by_soname_and_file_name);
    tcase_add_test(next, searches_the_scope_of_the_caller);
    tcase_add_test(next, keeps_the_found_object_loaded);
    tcase_add_test(next, lets_objects_in_the_callers_scope_unload);
    tcase_add_test(next, recognizes_its_own_functions);
    tcase_add_test(next, keeps_errno_and_dlerror_clean);
    tcase_add_test(next, resolve_behind_skips_its_own_functions);
    tcase_add_test(next, changes_the_generation_when_an_object_loads);
    suite_add_tcase(suite, next);

    TCase *objects = tcase_create("objects");
    tcase_add_test(objects, finds_objects_by_file_name);
    tcase_add_test(objects, finds_functions_in_one_object);
    tcase_add_test(objects, finds_functions_without_dlsym);
    tcase_add_test(objects, hides_an_object_from_dlsym);
    suite_add_tcase(suite, objects);
    return suite;
}
