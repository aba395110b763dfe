/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cprof asks the loader.
 *
 * Symbols: other libraries of LD_PRELOAD export a dlsym() of their own. RTLD_NEXT then means what
 * comes behind them, which is cprof itself where they come first. So cprof calls the C library's
 * dlsym(), found in that library's table.
 *
 * Walks over the loader's list, and forks. The C library makes its other locks free again in a
 * forked child, but not the one of dl_iterate_phdr(): a child made while a thread walks could never
 * load a library. A fork waits for the walks that have begun, and who wants to begin one waits for
 * the fork; nobody waits for ever, because a signal handler may fork in the middle of a walk.
 */
#include "writer/writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "writer/os/futex.h"

#define WAIT_MS 1000u /* most that either waits for the other */

static _Atomic uint32_t walks;   /* that go on; any thread adds and takes away */
static _Atomic uint32_t forking; /* futex: 1 while a fork is going on; who forks writes */

typedef void *symbol_function(void *handle, const char *name);
typedef void *version_function(void *handle, const char *name, const char *version);

/* Any thread writes, all write the same; relaxed. */
static _Atomic(symbol_function *) real_dlsym;
static _Atomic(version_function *) real_dlvsym;

static void wait_for_fork(void)
{
    int saved = errno;
    for (unsigned ms = 0; ms < WAIT_MS && atomic_load(&forking); ms += 10)
        futex_wait(&forking, 1, 10);
    errno = saved;
}

void loader_enter(void)
{
    atomic_fetch_add(&walks, 1);
    if (__builtin_expect(atomic_load(&forking) == 0, 1))
        return;
    atomic_fetch_sub(&walks, 1);
    wait_for_fork();
    atomic_fetch_add(&walks, 1);
}

void loader_leave(void)
{
    atomic_fetch_sub(&walks, 1);
}

int loader_walk(int (*look)(struct dl_phdr_info *info, size_t size, void *arg), void *arg)
{
    loader_enter();
    int answer = dl_iterate_phdr(look, arg);
    loader_leave();
    return answer;
}

int loader_walk_within(int (*look)(struct dl_phdr_info *info, size_t size, void *arg), void *arg)
{
    return dl_iterate_phdr(look, arg);
}

void loader_hold(void)
{
    uint32_t now;
    atomic_store(&forking, 1);
    for (unsigned ms = 0; ms < WAIT_MS && (now = atomic_load(&walks)) != 0; ms++)
        futex_wait(&walks, now, 1); /* nobody wakes: a walk takes microseconds */
}

void loader_release(bool child)
{
    if (child)
        atomic_store(&walks, 0);
    atomic_store(&forking, 0);
    futex_wake(&forking);
}

/* For loader_walk(). Before glibc 2.34 they are in libdl, which this library then needs. */
static int find_real(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct elf_loaded o;
    (void)size, (void)unused;
    if (!elf_loaded(info, &o) ||
        (strcmp(o.soname, "libc.so.6") != 0 && strcmp(o.soname, "libdl.so.2") != 0))
        return 0;
    symbol_function *symbol = (symbol_function *)elf_loaded_function(&o, "dlsym");
    version_function *version = (version_function *)elf_loaded_function(&o, "dlvsym");
    if (!symbol || !version)
        return 0;
    atomic_store_explicit(&real_dlvsym, version, memory_order_relaxed);
    atomic_store_explicit(&real_dlsym, symbol, memory_order_relaxed);
    return 1;
}

void *loader_symbol(void *handle, const char *name)
{
    symbol_function *real = atomic_load_explicit(&real_dlsym, memory_order_relaxed);
    if (!real) {
        loader_walk(find_real, NULL);
        real = atomic_load_explicit(&real_dlsym, memory_order_relaxed);
    }
    return real ? real(handle, name) : dlsym(handle, name);
}

void *loader_symbol_of(void *handle, const char *name, const char *version)
{
    version_function *real = atomic_load_explicit(&real_dlvsym, memory_order_relaxed);
    if (!real) {
        loader_walk(find_real, NULL);
        real = atomic_load_explicit(&real_dlvsym, memory_order_relaxed);
    }
    return real ? real(handle, name, version) : dlvsym(handle, name, version);
}
