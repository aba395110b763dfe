/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/stacks/unwind.h: the library of a return address, while other libraries are
 * loaded and unloaded. tests/e2e/test_stacks.py and tests/soak/stacks.py check the unwound
 * stacks. */
#define _GNU_SOURCE
#include "preload/stacks/unwind.h"

#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "tests/support/sanitizer.h"
#include "writer/stack/dso_table.h"

#define COPIES 8
#define ROUNDS 2000
/* A library of glibc that nothing else in this process uses. */
#define LIBRARY "libBrokenLocale.so.1"
#define SYMBOL  "__ctype_get_mb_cur_max"

static _Atomic unsigned unknown, wrong;

/* A copy of LIBRARY, which the loader treats as another library. Removed with the process. */
static void copy_library(char *path, size_t size)
{
    Dl_info info;
    void *handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    ck_assert_int_ne(dladdr(dlsym(handle, SYMBOL), &info), 0);
    int from = open(info.dli_fname, O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);
    ck_assert_int_gt(sendfile(to, from, NULL, 1 << 20), 0);
    close(from);
    dlclose(handle);
    snprintf(path, size, "/proc/self/fd/%d", to);
}

/* Loads a copy, takes a stack, looks up the copy by the address of its function, and unloads it. */
static void *load_and_unload(void *path)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL), *pcs[16];
        void *address = handle ? dlsym(handle, SYMBOL) : NULL;
        unwind_frames(pcs, sizeof pcs / sizeof *pcs, false);
        uint32_t number = unwind_object(address);
        unknown += number == DSO_GAP;
        dso_table_look();
        const struct elf_object *o = dso_table_find((uintptr_t)address, number);
        wrong += !o || strcmp(o->path, path) != 0;
        dlclose(handle);
    }
    return NULL;
}

START_TEST(finds_libraries_while_others_load_and_unload)
{
    static char paths[COPIES][32];
    pthread_t threads[COPIES];
    if (UNDER_TSAN) {
        fprintf(stderr, "unwind: 1 test skipped: libunwind ends a program that is built with "
                        "ThreadSanitizer at its first stack\n");
        return;
    }
    unwind_start();
    if (!unwind_ready()) {
        fprintf(stderr, "unwind: 1 test skipped: there is no libunwind.so.8\n");
        return;
    }
    for (int i = 0; i < COPIES; i++)
        copy_library(paths[i], sizeof paths[i]);
    for (int i = 0; i < COPIES; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load_and_unload, paths[i]), 0);
    for (int i = 0; i < COPIES; i++)
        pthread_join(threads[i], NULL);
    ck_assert_msg(unknown == 0 && wrong == 0, "%u libraries are unknown, %u are wrong", unknown,
                  wrong);
}
END_TEST

Suite *suite_unwind(void)
{
    Suite *suite = suite_create("unwind");
    TCase *all = tcase_create("all");
    tcase_add_test(all, finds_libraries_while_others_load_and_unload);
    suite_add_tcase(suite, all);
    return suite;
}
