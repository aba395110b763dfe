/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol lookups and walks over the loader's list.
 *
 * Other libraries of LD_PRELOAD may export a dlsym() of their own. RTLD_NEXT would then mean the
 * library after that one, which may be cprof itself. So cprof calls the C library's dlsym(), found
 * in that library's symbol table.
 *
 * In a forked child the C library releases its locks, except that of dl_iterate_phdr(). A child
 * that was forked during a walk could never load a library. So a fork waits for the walks that have
 * begun, and new walks wait for the fork. All waits are bounded, because a signal handler may fork
 * in the middle of a walk. */
#include "writer/writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "writer/os/futex.h"

#define WAIT_MS 1000u /* most time that fork and walk wait for each other */

static _Atomic uint32_t walks;   /* walks in progress; any thread */
static _Atomic uint32_t forking; /* futex: 1 during a fork; the forking thread writes */

typedef void *symbol_function(void *handle, const char *name);
typedef void *version_function(void *handle, const char *name, const char *version);

/* any thread writes, all the same value; relaxed */
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
        futex_wait(&walks, now, 1); /* times out: a walk takes microseconds and wakes nobody */
}

void loader_release(bool child)
{
    if (child)
        atomic_store(&walks, 0);
    atomic_store(&forking, 0);
    futex_wake(&forking);
}

/* For loader_walk(). Before glibc 2.34 both functions are in libdl, which cprof then links to. */
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
