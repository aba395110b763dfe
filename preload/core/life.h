/* SPDX-License-Identifier: Apache-2.0 */
/* Which state cprof is in, and requests to change it: wake up, end, become inert in a child.
 *
 * Every room reads the state and makes requests. Only init.c, which stands below all rooms, starts
 * and stops the parts; it answers through `life_table`. */
#ifndef PRELOAD_CORE_LIFE_H
#define PRELOAD_CORE_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum wake_reason { WAKE_CUDA, WAKE_INJECTION, WAKE_MARKER, WAKE_TORCH, WAKE_COLLECTIVE };

enum life {
    LIFE_ASLEEP, /* loaded, nothing asked for cprof yet */
    LIFE_WAKING, /* one thread is starting the parts */
    LIFE_AWAKE,  /* parts run */
    LIFE_OVER,   /* exit began, cprof is disabled, or this is a forked child: inert for good */
};

/* enum life. Written by the waking thread, at exit and in a forked child; read by every hook. */
extern _Atomic int cprof_life;

/* ---- requests ---- */

/* Starts the parts, once per process; a second caller returns at once. Prints nothing unless a
 * setting is bad. May run inside a dlopen with the loader lock held. Any application thread. */
void cprof_wake(enum wake_reason reason);

/* cprof_wake() behind one load and one test, for hooks. */
static inline void cprof_wake_once(enum wake_reason reason)
{
    if (__builtin_expect(atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_ASLEEP, 0))
        cprof_wake(reason);
}

/* Wakes cprof up for a call that says where the training stands. While another thread wakes it,
 * this one waits, at most a second: a step that is not counted shifts all later ones. True when
 * cprof is awake. Any application thread. */
bool cprof_awake(void);

/* Finishes the open files and says what was written. From atexit and from the _exit wrapper. A
 * later call waits for the first one when that is another thread's, CPROF_DRAIN_DEADLINE_MS and a
 * second at most; else it does nothing. Keeps errno. */
void cprof_at_exit(void);

/* Makes a forked child inert for good: no file, no lock, no thread. In the child's atfork
 * handler. */
void cprof_in_child(void);

/* ---- facts ---- */

/* The process that woke cprof; 0 before. Any thread. */
int cprof_owner_pid(void);

/* This library's file as the loader knows it; "" where it is inert. Any thread. */
const char *cprof_path(void);

/* True when the driver was told to call this library (CUDA_INJECTION64_PATH). Any thread. */
bool cprof_is_injected(void);

/* ---- what the parts are told ---- */

/* How recording changes at the edge of a step. */
struct edge_change {
    bool begins; /* recording begins: sources that are off go on */
    bool ends;   /* recording ends, and the program goes on */
    bool ranked; /* the first step that is recorded: the program has set its rank by now */
    bool memory; /* allocations seen so far no longer count */
    bool stacks; /* stacks are taken in this step */
};

struct saved_trace;

/* One row of parts.def; NULL where a part has nothing to do. */
struct part {
    /* Before the first instant of a step, so that a source that goes on sees all of it. Stepping
     * thread, under the lock of steps. */
    void (*edge_before)(const struct edge_change *change);
    /* After that instant; the same thread and lock. */
    void (*edge_after)(const struct edge_change *change);
    /* Once that lock is released, after every request. The same thread. */
    void (*edge_settle)(void);
    /* A trace file is whole. cprof thread. */
    void (*trace_ready)(const struct saved_trace *trace);
    /* Each pass of the cprof thread; stopping: the program ends. The milliseconds after which to
     * come again, or -1. */
    int (*poll)(bool stopping);
    /* The program ends. Exiting thread. */
    void (*stop)(void);
    /* This is a forked child. Its atfork handler. */
    void (*child)(void);
};

/* Answers to the requests, by init.c. Constant, so that a request that comes before the
 * constructor, from the constructor of a library that the program is linked to, finds it. */
struct life_table {
    void (*wake)(enum wake_reason reason);
    void (*at_exit)(void);
    void (*in_child)(void);
    const struct part *parts;
    unsigned n_parts;
};
extern const struct life_table life_table;

/* Walk the parts, in the order of parts.def. See struct part for the threads. */
void life_edge_before(const struct edge_change *change);
void life_edge_after(const struct edge_change *change);
void life_edge_settle(void);
void life_trace_ready(const struct saved_trace *trace);
int life_poll(bool stopping); /* the shortest of the parts' times */

/* ---- for init.c ---- */

/* From LIFE_ASLEEP to LIFE_WAKING. False: another thread was first. */
bool life_begin_waking(void);

/* What the constructor found out. `path` is kept. */
void life_set_path(const char *path);
void life_set_injected(bool injected);

#endif
