/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/stack/cfi.c: stacks of a thread that waits in a system call. */
#define _GNU_SOURCE
#include "writer/stack/cfi.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/sanitizer.h"
#include "writer/stack/dso_table.h"

#define NOINLINE __attribute__((noinline))

static int ends[2]; /* of a pipe */
static _Atomic int waiting;
static uint64_t returns[3]; /* return addresses of the functions below, the innermost first */

static uint64_t own_return(void *address)
{
    return (uint64_t)(uintptr_t)__builtin_extract_return_addr(address);
}

static NOINLINE void innermost(void)
{
    char byte;
    returns[0] = own_return(__builtin_return_address(0));
    atomic_store(&waiting, (int)syscall(SYS_gettid));
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
}

/* Its frame has a size that is known only when it runs, so it is found by a register. */
static NOINLINE void with_room(volatile size_t n)
{
    volatile char *room = __builtin_alloca(n);
    returns[1] = own_return(__builtin_return_address(0));
    room[0] = 1;
    innermost();
    room[n - 1] = 1;
}

static NOINLINE void *outermost(void *unused)
{
    returns[2] = own_return(__builtin_return_address(0));
    with_room(100 + (size_t)getpid() % 7);
    return unused;
}

static void place_of(int tid, uint64_t *pc, uint64_t *sp)
{
    char path[64], text[256] = "";
    unsigned long stack = 0, at = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    do { /* until it waits */
        usleep(1000);
        FILE *file = fopen(path, "r");
        ck_assert_ptr_nonnull(file);
        ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
        fclose(file);
    } while (sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %lx %lx", &stack, &at) != 2);
    *pc = at;
    *sp = stack;
}

static pthread_t begin(uint64_t *pc, uint64_t *sp)
{
    pthread_t thread;
    dso_table_look();
    ck_assert_int_eq(pipe(ends), 0);
    atomic_store(&waiting, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, outermost, NULL), 0);
    while (!atomic_load(&waiting))
        usleep(1000);
    place_of(atomic_load(&waiting), pc, sp);
    return thread;
}

static void end(pthread_t thread)
{
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(unwinds_a_waiting_thread)
{
    uint64_t pc, sp, found[32];
    bool whole;
    pthread_t thread = begin(&pc, &sp);
    unsigned n = cfi_unwind(pc, sp, found, 32, &whole), at = 0;
    /* With frame pointers, and in AddressSanitizer's read(), a frame is found by a register that
     * nobody knows. */
#if defined FRAME_POINTERS || UNDER_ASAN
    static const bool by_register = true;
#else
    static const bool by_register = false;
#endif
    ck_assert_uint_ge(n, by_register ? 2 : 3);
    ck_assert_uint_eq(found[0], pc);
    if (by_register) {
        end(thread);
        return;
    }
    for (unsigned i = 0; i < n && at < 3; i++)
        at += found[i] == returns[at];
    /* no frame may have saved the register by which with_room() finds its frame */
    ck_assert_uint_ge(at, 1);
    ck_assert(!whole || at == 3);
    ck_assert_uint_eq(cfi_unwind(pc, sp, found, 2, &whole), 2);
    ck_assert(!whole);
    end(thread);
}
END_TEST

/* Wrong addresses give wrong or no frames. */
START_TEST(survives_any_address)
{
    uint64_t pc, sp, found[32];
    bool whole;
    pthread_t thread = begin(&pc, &sp);
    ck_assert_uint_eq(cfi_unwind(1, 1, found, 32, &whole), 1);
    ck_assert_uint_eq(cfi_unwind(UINT64_MAX, UINT64_MAX, found, 32, &whole), 1);
    ck_assert_uint_eq(cfi_unwind(pc, 8, found, 32, &whole), 1);
    srandom(1);
    for (int i = 0; i < 20000; i++) {
        uint64_t code = pc + (uint64_t)(random() % 2000000) - 1000000;
        ck_assert_uint_ge(cfi_unwind(code, sp + (uint64_t)(random() % 4096), found, 32, &whole), 1);
    }
    end(thread);
}
END_TEST

Suite *suite_cfi(void)
{
    Suite *s = suite_create("cfi");
    TCase *t = tcase_create("cfi");
    tcase_add_test(t, unwinds_a_waiting_thread);
    tcase_add_test(t, survives_any_address);
    suite_add_tcase(s, t);
    return s;
}
