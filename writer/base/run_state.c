/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the cprof thread and tells its state. */
#define _GNU_SOURCE
#include "writer/base/run_state.h"
#include "writer/writer.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "writer/os/os.h"
#include "writer/base/wake.h"

#define THREAD_STACK (1u << 20) /* the demangler takes 400 KB for a hostile name */

static _Atomic uint32_t life; /* futex: enum run_state; start, exit and the cprof thread write */
static _Atomic int threads;
static void *(*cprof_thread)(void *); /* the function of the cprof thread */

enum run_state run_state_now(void)
{
    return (enum run_state)atomic_load(&life);
}

bool run_state_change(enum run_state from, enum run_state to)
{
    uint32_t expected = from;
    bool changed = atomic_compare_exchange_strong(&life, &expected, to);
    if (changed)
        futex_wake(&life);
    return changed;
}

void run_state_set(enum run_state to)
{
    atomic_store(&life, to);
    futex_wake(&life);
}

void run_state_wait(enum run_state part, int ms)
{
    futex_wait(&life, part, ms);
}

void run_state_wait_past(enum run_state part, int64_t most_ms)
{
    uint64_t start = clock_monotonic_ns();
    int64_t left = most_ms;
    while (left > 0 && run_state_now() == part) {
        if (part == WRITER_STOPPING)
            wake_thread();
        run_state_wait(part, left < 100 ? (int)left : 100);
        left = most_ms - (int64_t)((clock_monotonic_ns() - start) / 1000000);
    }
}

void run_state_thread(int change)
{
    atomic_fetch_add(&threads, change);
}

unsigned writer_threads(void)
{
    int n = run_state_now() == WRITER_ABANDONED ? 0 : atomic_load(&threads);
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

size_t run_state_stack_size(size_t own)
{
    size_t sum = own;
    loader_walk(add_storage, &sum);
    return sum;
}

static void *run_cprof_thread(void *arg)
{
    void *result = cprof_thread(arg);
    run_state_thread(-1);
    return result;
}

int run_state_start(void *(*run)(void *), const struct writer_options *options)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, run_state_stack_size(THREAD_STACK));
    pthread_attr_t plain = attr; /* for a mask of processors that no longer exist */
    if (options->affinity)
        pthread_attr_setaffinity_np(&attr, options->affinity_size, options->affinity);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    /* A thread starts with its creator's name. Child processes recognize a traced parent by the
     * name of the cprof thread, and may look before that thread runs. */
    char own_name[16] = "";
    bool named =
        prctl(PR_GET_NAME, own_name, 0, 0, 0) == 0 && prctl(PR_SET_NAME, "cprof", 0, 0, 0) == 0;
    cprof_thread = run;
    run_state_thread(1);
    int error = pthread_create(&thread, &attr, run_cprof_thread, NULL);
    if (error == EINVAL && options->affinity)
        error = pthread_create(&thread, &plain, run_cprof_thread, NULL);
    if (named)
        prctl(PR_SET_NAME, own_name, 0, 0, 0);
    if (error)
        run_state_thread(-1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}
