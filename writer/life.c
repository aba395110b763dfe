/* SPDX-License-Identifier: Apache-2.0 */
/* See life.h. */
#define _GNU_SOURCE
#include "writer/life.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include "writer/edges.h"
#include "writer/futex.h"

#define THREAD_STACK (1u << 20) /* the demangler takes 400 KB of it for a hostile name */

static _Atomic uint32_t life; /* futex: enum writer_life; start, exit and the cprof thread write */
static _Atomic int threads;
static void *(*cprof_thread)(void *); /* what it runs */

enum writer_life life_now(void)
{
    return (enum writer_life)atomic_load(&life);
}

bool life_change(enum writer_life from, enum writer_life to)
{
    uint32_t expected = from;
    bool changed = atomic_compare_exchange_strong(&life, &expected, to);
    if (changed)
        futex_wake(&life);
    return changed;
}

void life_set(enum writer_life to)
{
    atomic_store(&life, to);
    futex_wake(&life);
}

void life_wait(enum writer_life part, int ms)
{
    futex_wait(&life, part, ms);
}

void life_wait_past(enum writer_life part, int64_t most_ms)
{
    uint64_t start = clock_monotonic_ns();
    int64_t left = most_ms;
    while (left > 0 && life_now() == part) {
        if (part == WRITER_STOPPING)
            edges_wake();
        life_wait(part, left < 100 ? (int)left : 100);
        left = most_ms - (int64_t)((clock_monotonic_ns() - start) / 1000000);
    }
}

void life_thread(int change)
{
    atomic_fetch_add(&threads, change);
}

unsigned writer_threads(void)
{
    int n = life_now() == WRITER_ABANDONED ? 0 : atomic_load(&threads);
    return n > 0 ? (unsigned)n : 0;
}

static int add_storage(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_TLS)
            *(size_t *)sum += p->p_memsz + p->p_align;
    }
    return 0;
}

size_t life_stack_size(size_t own)
{
    size_t sum = own;
    loader_walk(add_storage, &sum);
    return sum;
}

static void *live(void *arg)
{
    void *result = cprof_thread(arg);
    life_thread(-1);
    return result;
}

int life_start(void *(*run)(void *), const struct writer_options *options)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, life_stack_size(THREAD_STACK));
    pthread_attr_t plain = attr; /* for a mask that names processors which are gone */
    if (options->affinity)
        pthread_attr_setaffinity_np(&attr, options->affinity_size, options->affinity);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    cprof_thread = run;
    life_thread(1);
    int error = pthread_create(&thread, &attr, live, NULL);
    if (error == EINVAL && options->affinity)
        error = pthread_create(&thread, &plain, live, NULL);
    if (error)
        life_thread(-1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
