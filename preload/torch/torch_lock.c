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

/* ms that a fork waits for torch's own lock, which torch holds for less than one */
#define OWN_LOCK_MS 1000
/* ns that a fork waits for other threads if torch's own lock was not found */
#define SETTLE_NS 2000000

static pthread_mutex_t torch_mutex = PTHREAD_MUTEX_INITIALIZER;
/* The thread that holds torch_mutex, 0: none. That thread writes; any thread reads, relaxed, to see
 * whether it is the holder. */
static _Atomic(pthread_t) holder;
/* signals and cancellation before the lock; the holder writes and reads */
static struct held_back holder_before;
/* cprof has called into torch; before that, a fork need not wait. Under torch_mutex */
static bool switched;

/* torch's own lock. After cprof switches a callback, each other thread rebuilds its callback list
 * under this lock, at its next operator. cprof's lock does not keep those threads out. While the
 * kernel copies a forking process, they stop at their first write, often inside the lock, which the
 * child would inherit locked. Both variables are written at the first torch_lock(), before any
 * switch. */
static pthread_mutex_t *_Atomic own_lock; /* NULL: not found */
/* at::hasGlobalCallbacks, which takes and releases that lock */
static bool (*_Atomic pass_own_lock)(void);

static void find_own_lock(void)
{
    bool (*pass)(void) =
        (bool (*)(void))resolve_in("libtorch_cpu.so", "_ZN2at18hasGlobalCallbacksEv");
    atomic_store(&pass_own_lock, pass);
    if (pass)
        atomic_store(&own_lock, lock_spy("libtorch_cpu.so", pass));
}

static bool held_by_this_thread(void)
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

static void release_torch_lock(void)
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
    release_torch_lock();
}

/* Without torch's own lock: gives the other threads time to rebuild their lists. */
static void wait_until_settled(void)
{
    struct timespec wait = {.tv_nsec = SETTLE_NS};
    while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
        ;
    bool (*pass)(void) = atomic_load(&pass_own_lock);
    if (pass)
        pass(); /* returns only after a preempted thread has left the lock */
}

/* Takes torch's own lock. False: not taken. */
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

/* Which locks torch_lock_before_fork() took. The forking thread, which holds torch_mutex, writes
 * there and reads in parent and child. */
static bool took_ours, took_own;

bool torch_lock_before_fork(void)
{
    /* Only the handler of a fault during a switch forks with the lock held. Waiting would never
     * end. */
    bool inside = held_by_this_thread();
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
        release_torch_lock();
}
