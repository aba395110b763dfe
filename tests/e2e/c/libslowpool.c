/* SPDX-License-Identifier: Apache-2.0 */
/* A preloaded library that delays the threads of torch's pool as a busy machine may: after they
 * wake up the caller, and before they take Python's lock. The program calls slow_pool(1) before
 * its last TorchScript call and slow_pool(2) after it has returned the result. SLOWPOOL_MS is
 * how long a thread then runs before it takes the lock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST_MS 500

static _Atomic int stage;

void slow_pool(int to);
void slow_pool(int to)
{
    atomic_store(&stage, to);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void run_on(int until, int64_t ms)
{
    for (int64_t end = now_ms() + ms; atomic_load(&stage) != until && now_ms() < end;)
        ;
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    static int (*next)(pthread_cond_t *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_broadcast");
    int result = next(condition);
    if (atomic_load(&stage) == 1 && gettid() != getpid())
        run_on(2, MOST_MS);
    return result;
}

void PyEval_AcquireThread(void *state);
void PyEval_AcquireThread(void *state)
{
    static void (*next)(void *);
    const char *ms = getenv("SLOWPOOL_MS");
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "PyEval_AcquireThread");
    if (atomic_load(&stage) == 2 && gettid() != getpid() && ms)
        run_on(-1, atoi(ms));
    next(state);
}
