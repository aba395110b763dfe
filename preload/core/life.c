/* SPDX-License-Identifier: Apache-2.0 */
/* cprof's state in this process. Any thread; no lock. */
#include "preload/core/life.h"

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#define WAKE_WAIT_MS 1000 /* longest wait of a step for another thread that wakes cprof */

_Atomic int cprof_life;

static _Atomic int owner;
/* the thread that woke cprof; valid from LIFE_WAKING on */
static _Atomic pthread_t waker;
static const char *own_path = ""; /* both are written in the constructor */
static bool injected;

void cprof_wake(enum wake_reason reason)
{
    life_table.wake(reason);
}

void cprof_at_exit(void)
{
    life_table.at_exit();
}

void cprof_in_child(void)
{
    life_table.in_child();
}

bool life_begin_waking(void)
{
    int asleep = LIFE_ASLEEP;
    if (!atomic_compare_exchange_strong(&cprof_life, &asleep, LIFE_WAKING))
        return false;
    atomic_store(&waker, pthread_self());
    atomic_store(&owner, (int)getpid());
    return true;
}

/* False in the waking thread itself, and in a child forked meanwhile. */
static bool another_thread_wakes(void)
{
    return atomic_load(&cprof_life) == LIFE_WAKING &&
           !pthread_equal(atomic_load(&waker), pthread_self()) &&
           (atomic_load(&owner) == 0 || atomic_load(&owner) == (int)getpid());
}

bool cprof_awake(void)
{
    cprof_wake_once(WAKE_MARKER);
    for (unsigned i = 0; i < WAKE_WAIT_MS && another_thread_wakes(); i++)
        usleep(1000);
    return atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_AWAKE;
}

int cprof_owner_pid(void)
{
    return atomic_load_explicit(&owner, memory_order_relaxed);
}

void life_set_path(const char *path)
{
    own_path = path;
}

const char *cprof_path(void)
{
    return own_path;
}

void life_set_injected(bool is)
{
    injected = is;
}

bool cprof_is_injected(void)
{
    return injected;
}

/* ---- walks ---- */

#define WALK(column, ...)                                                                          \
    for (unsigned i = 0; i < life_table.n_parts; i++)                                              \
        if (life_table.parts[i].column)                                                            \
    life_table.parts[i].column(__VA_ARGS__)

void life_edge_before(const struct edge_change *change)
{
    WALK(edge_before, change);
}

void life_edge_after(const struct edge_change *change)
{
    WALK(edge_after, change);
}

void life_edge_settle(void)
{
    WALK(edge_settle);
}

void life_trace_ready(const struct saved_trace *trace)
{
    WALK(trace_ready, trace);
}

/* The shorter of two waits; -1 is endless. */
static int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

int life_poll(bool stopping)
{
    int next = -1;
    for (unsigned i = 0; i < life_table.n_parts; i++)
        if (life_table.parts[i].poll)
            next = sooner(next, life_table.parts[i].poll(stopping));
    return next;
}
