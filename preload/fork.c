/* SPDX-License-Identifier: Apache-2.0 */
/* fork: prepare, parent and child handlers; see fork.h. They run on the forking application thread. */
#include "preload/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "preload/init.h"
#include "preload/resolve.h"

#define SETTLE_NS                                                                                  \
    2000000 /* how long after a switch of callbacks other threads may hold torch's lock */

static pthread_mutex_t torch_mutex = PTHREAD_MUTEX_INITIALIZER;
/* Both: the holder of the mutex writes; `holder` is read by threads that ask whether they hold it. */
static _Atomic(pthread_t) holder; /* 0 = nobody; relaxed */
static int64_t switched_ns;       /* CLOCK_MONOTONIC of the last unlock; 0 = never */

/* at::hasGlobalCallbacks, which only reads, but under torch's own lock: when it returns, no thread that
 * lost its CPU inside that lock is still there. Written at the first fork_torch_lock(), before any
 * switch; NULL: this torch has none. */
static bool (*_Atomic pass_through_lock)(void);

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool held_here(void)
{
    return atomic_load_explicit(&holder, memory_order_relaxed) == pthread_self();
}

static void take(void)
{
    pthread_mutex_lock(&torch_mutex);
    atomic_store_explicit(&holder, pthread_self(), memory_order_relaxed);
}

static void give(void)
{
    atomic_store_explicit(&holder, (pthread_t)0, memory_order_relaxed);
    pthread_mutex_unlock(&torch_mutex);
}

void fork_torch_lock(void)
{
    static _Atomic bool looked;
    if (!atomic_exchange(&looked, true)) {
        void *found = resolve_in("libtorch_cpu.so", "_ZN2at18hasGlobalCallbacksEv");
        atomic_store(&pass_through_lock, (bool (*)(void))found);
    }
    take();
}

void fork_torch_unlock(void)
{
    switched_ns = now_ns();
    give();
}

/* Lets the other threads finish what the last switch made them do. */
static void wait_until_settled(void)
{
    if (!switched_ns)
        return;
    int64_t left = switched_ns + SETTLE_NS - now_ns();
    struct timespec wait = {.tv_nsec = left};
    while (left > 0 && left <= SETTLE_NS && nanosleep(&wait, &wait) != 0 && errno == EINTR)
        ;
    bool (*pass)(void) = atomic_load(&pass_through_lock);
    if (pass)
        pass();
}

/* A fork from inside the lock can only come from a signal handler that interrupted a switch: there is
 * nothing to wait for, and waiting would never end. */
static _Atomic bool nested; /* written in prepare, read in parent and child; same thread */

static void before_fork(void)
{
    int saved = errno;
    bool inside = held_here();
    if (!inside) {
        take();
        wait_until_settled();
    }
    atomic_store_explicit(&nested, inside, memory_order_relaxed);
    errno = saved;
}

static void in_parent(void)
{
    if (!atomic_load_explicit(&nested, memory_order_relaxed))
        give();
}

/* One thread is left, and it holds the lock. */
static void in_child(void)
{
    in_parent();
    cprof_in_child();
}

bool fork_start(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}
