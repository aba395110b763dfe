/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython 3.12 and later warn after os.fork() when the process has more than one thread, because a
 * lock that another thread held stays locked in the child. It takes their number from the 20th
 * field of /proc/self/stat (warn_about_fork_with_threads() in posixmodule.c). Our threads hold no
 * lock that a child meets (preload/hooks/fork.c sees to it), so its question is answered without
 * them: the warning comes where it comes without us, and a program that makes errors of warnings
 * goes on. Whoever else reads that file reads what the kernel says.
 */
#ifndef PRELOAD_HOOKS_THREAD_COUNT_H
#define PRELOAD_HOOKS_THREAD_COUNT_H

/* Looks up the next fopen and fopen64. In the constructor. */
void thread_count_start(void);

/* This thread has just forked; the next time that the interpreter opens /proc/self/stat on it, our
 * threads are not counted. In the parent's atfork handler. */
void thread_count_forked(void);

#endif
