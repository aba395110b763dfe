/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the loader's list, and forks. The C library makes its other locks free again in a forked child, but not the one of
 * dl_iterate_phdr(): a child made while a thread walks could never load a library. A fork waits for the walks that have begun, and who wants
 * to begin one waits for the fork; nobody waits for ever, because a signal handler may fork in the middle of a walk.
 */
#include "writer/writer.h"

#include <errno.h>
#include <link.h>

#include "writer/futex.h"

#define WAIT_MS 1000u /* most that either waits for the other */

static _Atomic uint32_t walks;   /* that go on; any thread adds and takes away */
static _Atomic uint32_t forking; /* futex: 1 while a fork is going on; who forks writes */

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
