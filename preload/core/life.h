/* SPDX-License-Identifier: Apache-2.0 */
/* cprof's state in this process, and requests to change it: wake up, end, become inert in a child.
 * Rooms read the state and make requests. Only init.c starts and stops the parts; it serves the
 * requests through `life_table`. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum wake_reason { WAKE_CUDA, WAKE_INJECTION, WAKE_MARKER, WAKE_TORCH, WAKE_COLLECTIVE };

enum life {
    LIFE_ASLEEP, /* loaded; nothing has needed cprof yet */
    LIFE_WAKING, /* one thread is starting the parts */
    LIFE_AWAKE,  /* the parts run */
    LIFE_OVER,   /* exiting, disabled or a forked child: inert for good */
};

/* enum life. Written by the waking thread, at exit and in a forked child; read by all hooks. */
extern _Atomic int cprof_life;

/* ---- requests ---- */

/* Starts the parts, once per process; a second caller returns at once. Prints only messages about
 * bad settings. May run inside a dlopen, with the loader's lock held. Any application thread. */
void cprof_wake(enum wake_reason reason);

/* cprof_wake() after one load and one test, for hooks. */
static inline void cprof_wake_once(enum wake_reason reason)
{
    if (__builtin_expect(atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_ASLEEP, 0))
        cprof_wake(reason);
}

/* Wakes cprof for a call that marks the training's progress. Waits at most a second for another
 * thread that wakes it: a missed step would shift all later ones. True when cprof is awake. Any
 * application thread. */
bool cprof_awake(void);

/* Finishes the open files and reports them. Called at exit and from the _exit wrapper. A later call
 * on another thread waits for the first, at most CPROF_DRAIN_DEADLINE_MS and a second; on the same
 * thread it does nothing. Keeps errno. */
void cprof_at_exit(void);

/* Makes a forked child inert for good, without a file, lock or thread. In the child's atfork
 * handler. */
void cprof_in_child(void);

/* ---- facts ---- */

/* The process that woke cprof; 0 before that. Any thread. */
int cprof_owner_pid(void);

/* This library's path as the loader knows it; "" while inert. Any thread. */
const char *cprof_path(void);

/* True when CUDA_INJECTION64_PATH names this library, so the driver calls it. Any thread. */
bool cprof_is_injected(void);

/* ---- callbacks of the parts ---- */

/* How recording changes at a step edge. */
struct edge_change {
    bool begins; /* recording begins: switch sources on */
    bool ends;   /* recording ends and the program continues */
    bool ranked; /* the first recorded step; the program has set its rank by now */
    bool memory; /* forget the allocations seen so far */
    bool stacks; /* this step records stacks */
};

struct saved_trace;

/* A row of parts.def; NULL: nothing to do. */
struct part {
    /* Before the step's first instant, so that a new source sees all of it. The thread that marks
     * the step, under the lock of steps. */
    void (*edge_before)(const struct edge_change *change);
    /* After that instant; same thread and lock. */
    void (*edge_after)(const struct edge_change *change);
    /* After the lock's release, once per request; same thread. */
    void (*edge_settle)(void);
    /* A trace file is complete. cprof thread. */
    void (*trace_ready)(const struct saved_trace *trace);
    /* Each pass of the cprof thread. stopping: the program ends. Returns the milliseconds until the
     * next pass, or -1 for no limit. */
    int (*poll)(bool stopping);
    /* At exit. Exiting thread. */
    void (*stop)(void);
    /* In a forked child's atfork handler. */
    void (*child)(void);
};

/* Serves the requests; defined in init.c. Constant, because the constructor of a linked library may
 * make a request before this library's constructor runs. */
struct life_table {
    void (*wake)(enum wake_reason reason);
    void (*at_exit)(void);
    void (*in_child)(void);
    const struct part *parts;
    unsigned n_parts;
};
extern const struct life_table life_table;

/* Call the parts in the order of parts.def, on the threads that struct part names. */
void life_edge_before(const struct edge_change *change);
void life_edge_after(const struct edge_change *change);
void life_edge_settle(void);
void life_trace_ready(const struct saved_trace *trace);
int life_poll(bool stopping); /* returns the shortest wait */

/* ---- for init.c ---- */

/* Goes from LIFE_ASLEEP to LIFE_WAKING. False: another thread was first. */
bool life_begin_waking(void);

/* Set by the constructor. `path` must stay valid. */
void life_set_path(const char *path);
void life_set_injected(bool injected);
