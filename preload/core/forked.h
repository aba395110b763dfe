/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forked: what a process that was forked from a traced one says. Nothing of it is recorded, so a
 * program that shows there that it wants to be recorded is told. In such a child nothing of this
 * allocates or takes a lock. Parent: the thread that wakes cprof up. Child: any application thread.
 */
#ifndef PRELOAD_CORE_FORKED_H
#define PRELOAD_CORE_FORKED_H

/* This process is traced; its children are to say so where they run operators. Once, at
 * wake-up. */
void forked_start(void);

/* torch is in this process: notes where the code of its Python module lies, by which workers of
 * DataLoaders are known. Takes the loader's lock. */
void forked_note_torch(void);

/* In the child's atfork handler. */
void forked_in_child(void);

/* The first tensor of a child is made. One line for all children of a traced process together, none
 * for workers of DataLoaders. Elsewhere one load. */
void forked_works(void);

/* A child marks a step or wants to record otherwise: one line, unless forked_works() has written
 * one. Elsewhere one load. */
void forked_marks(void);

#endif
