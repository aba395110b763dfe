/* SPDX-License-Identifier: Apache-2.0 */
/* The lock around cprof's calls into torch, and torch's own lock across a fork. Application
 * threads. */
#include "preload/torch/torch_lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "preload/link/link.h"
#include "writer/writer.h"

/* a fork waits so long for torch's own lock: nobody holds it for a millisecond */
#define OWN_LOCK_MS 1000
/* where that lock is not known: how long other threads get to be done with it */
#define SETTLE_NS 2000000

static pthread_mutex_t torch_mutex = PTHREAD_MUTEX_INITIALIZER;
/* Both: the holder of the mutex writes; `holder` is read by threads that ask whether they hold it.
 * */
static _Atomic(pthread_t) holder; /* 0 = nobody; relaxed */
/* the holder's thread once it lets go; the same writes and reads it */
static struct held_back holder_before;
static bool switched; /* cprof has called into torch: no fork needs to wait before */

/*
 * torch's own lock. After a switch each other thread rebuilds its callback list under it, at its
 * next operator. Holding our lock does not keep those threads out, and while the kernel copies the
 * process they are stopped at their first write, which is easily inside. Both are written at the
 * first torch_lock(), before any switch.
 */
static pthread_mutex_t *_Atomic own_lock; /* NULL: could not be found */
/* at::hasGlobalCallbacks: takes it, reads, gives it back */
static bool (*_Atomic pass_own_lock)(void);

static void find_own_lock(void)
{
    bool (*pass)(void) =
        (bool (*)(void))resolve_in("libtorch_cpu.so", "_ZN2at18hasGlobalCallbacksEv");
    atomic_store(&pass_own_lock, pass);
    if (pass)
        atomic_store(&own_lock, lock_spy("libtorch_cpu.so", pass));
}

static bool held_here(void)
{
    return atomic_load_explicit(&holder, memory_order_relaxed) == pthread_self();
}

static void take_torch_lock(void)
{
    struct held_back before = hold_back();
    pthread_mutex_lock(&torch_mutex);
    holder_before = before;
    atomic_store_explicit(&holder, pthread_self(), memory_order_relaxed);
}

static void give(void)
{
    struct held_back before = holder_before;
    atomic_store_explicit(&holder, (pthread_t)0, memory_order_relaxed);
    pthread_mutex_unlock(&torch_mutex);
    hold_back_end(&before);
}

void torch_lock(void)
{
    static _Atomic bool looked;
    if (!atomic_exchange(&looked, true))
        find_own_lock();
    take_torch_lock();
}

void torch_unlock(void)
{
    switched = true;
    give();
}

/* The lock is not known: lets the other threads finish what the last switch made them do. */
static void wait_until_settled(void)
{
    struct timespec wait = {.tv_nsec = SETTLE_NS};
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        ;
    bool (*pass)(void) = atomic_load(&pass_own_lock);
    if (pass)
        pass(); /* a thread that lost its CPU inside the lock is out of it when this returns */
}

/* Keeps all threads out of torch's own lock; false: not held. */
static bool take_own_lock(void)
{
    pthread_mutex_t *own = atomic_load(&own_lock);
    if (!switched)
        return false;
    if (!own) {
        wait_until_settled();
        return false;
    }
    return lock_within(own, OWN_LOCK_MS);
}

/* What torch_lock_before_fork() took; written there, read in parent and child, by the forking
 * thread that holds torch_mutex. */
static bool took_ours, took_own;

bool torch_lock_before_fork(void)
{
    /* A fork from inside the lock can only come from the handler of a fault in a switch:
     * there is nothing to wait for, and waiting would never end. */
    bool inside = held_here();
    if (!inside)
        take_torch_lock();
    took_ours = !inside;
    took_own = !inside && take_own_lock();
    return took_ours;
}

void torch_lock_after_fork(void)
{
    if (took_own)
        pthread_mutex_unlock(atomic_load(&own_lock));
    if (took_ours)
        give();
}
