/* SPDX-License-Identifier: Apache-2.0 */
/* Life of cprof in a process: constructor, waking up, exit, forked children. The only place that starts and stops the parts. */
#ifndef PRELOAD_INIT_H
#define PRELOAD_INIT_H

#include <stdatomic.h>
#include <stdbool.h>

enum wake_reason { WAKE_CUDA, WAKE_INJECTION, WAKE_MARKER, WAKE_TORCH, WAKE_COLLECTIVE };

enum life {
    LIFE_ASLEEP, /* loaded, nothing asked for cprof yet */
    LIFE_WAKING, /* one thread is starting the parts */
    LIFE_AWAKE,  /* parts run */
    LIFE_OVER,   /* exit began, cprof is disabled, or this is a forked child: inert for good */
};

/* enum life. Written by the waking thread, at exit and in a forked child; read by every hook. */
extern _Atomic int cprof_life;

/* Starts the parts, once per process; a second caller returns at once. Prints nothing unless a setting is bad. May run inside a
 * dlopen with the loader lock held. Any application thread. */
void cprof_wake(enum wake_reason reason);

/* cprof_wake() behind one load and one test, for hooks. */
static inline void cprof_wake_once(enum wake_reason reason)
{
    if (__builtin_expect(atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_ASLEEP, 0))
        cprof_wake(reason);
}

/* Wakes cprof up for a call that says where the training stands: while another thread is doing that it waits, at most a second, because a
 * step that is not counted shifts all later ones. True when cprof is awake. Any application thread. */
bool cprof_awake(void);

/* CUDA comes alive in this process: starts the GPU side, once; does nothing while cprof sleeps or is over, or when the GPU is not to be
 * recorded. From InitializeInjection, before any context (initializing: inside cuInit); from a hook only where the driver was told to load
 * another library. Any application thread. */
void cprof_cuda_begins(bool initializing);

/* True when the driver was told to call this library (CUDA_INJECTION64_PATH). Any thread. */
bool cprof_is_injected(void);

/* This library's file as the loader knows it; "" where it is inert. Any thread. */
const char *cprof_path(void);

/* Called after the first CUDA call that succeeded: registers the exit handler again, so that it runs before CUDA's own. Any
 * thread; cheap when repeated. */
void cprof_cuda_alive(void);

/* Finishes the open files and says what was written. From atexit and from the _exit wrapper. A later call waits for the first one when that is
 * another thread's, CPROF_DRAIN_DEADLINE_MS and a second at most; else it does nothing. */
void cprof_at_exit(void);

/* Makes a forked child inert for good: no file, no lock, no thread. In the child's atfork handler. */
void cprof_in_child(void);

/* The process that woke cprof; 0 before. */
int cprof_owner_pid(void);

#endif
