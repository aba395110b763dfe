/* SPDX-License-Identifier: Apache-2.0 */
/* What each thread of the process does now: its state and system call, as the kernel tells, and its
 * Python frames. No thread is stopped or asked. cprof's own threads are left out. cprof thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/writer.h"

/* Remembers what each thread does, for the next thread_states_put(). */
void thread_states_look(const struct writer_options *options);

/* Writes a JSON array with an object for each thread, at most 256 besides those that run Python:
 *
 *   {"tid": 7, "name": "python", "state": "S", "stands": true, "call": "read",
 *    "file": "/data/x", "python": ["train.py(12): load", "train.py(40): <module>"]}
 *
 * state: as proc(5) has it. stands: nothing of it has changed since thread_states_look(); left out
 * if there was no look, or the thread is new. call, file, python: if there is one; the innermost
 * frame first. Forgets the look. */
void thread_states_put(const struct writer_options *options, struct buf *b);
