/* SPDX-License-Identifier: Apache-2.0 */
/* What each thread of the process does now: its state and system call, as the kernel tells, and its
 * native and Python frames. No thread is stopped or asked. cprof's own threads are left out. cprof
 * thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/writer.h"

/* Work that the process's own CPU time does not show, as far as the kernel tells. */
struct thread_work {
    uint64_t io_bytes;      /* read and written by the threads, without cprof's */
    uint64_t children_ns;   /* CPU time of the processes that they have started */
    uint64_t children;      /* differs where other children run */
    uint64_t waited_faults; /* page faults of the children that were waited for */
};

/* The work so far. */
struct thread_work thread_states_work(void);

/* Remembers what each thread does, for the next thread_states_put(). */
void thread_states_look(const struct writer_options *options);

/* Writes a JSON array with an object for the main thread and up to 256 others:
 *
 *   {"tid": 7, "name": "python", "state": "S", "stands": true, "call": "read",
 *    "file": "/data/x", "native": ["/lib/libc.so.6+0x1f2e"], "incomplete": true,
 *    "python": ["train.py(12): load", "train.py(40): <module>"]}
 *
 * state: as proc(5) has it. stands: nothing of it has changed since thread_states_look(); left out
 * if there was no look, or the thread is new. call, file, native, python: if there is one; the
 * innermost frame first. native: return addresses in files, of threads in a system call only;
 * incomplete: outer ones are not known (cfi.h). Forgets the look. */
void thread_states_put(const struct writer_options *options, struct buf *b);
