/* SPDX-License-Identifier: Apache-2.0 */
/* CPython 3.12 and later warn after os.fork() if the process has several threads, since locks of
 * other threads stay locked in the child. The count is field 20 of /proc/self/stat
 * (warn_about_fork_with_threads() in posixmodule.c). cprof's threads hold no lock that a child
 * needs (see fork.h), so the interpreter gets the count without them. Warnings then come as without
 * cprof. Other readers of the file see the kernel's count. */
#pragma once

/* Looks up the next fopen and fopen64. In the constructor. */
void thread_count_start(void);

/* This thread has forked: the interpreter's next read of /proc/self/stat on it omits cprof's
 * threads. In the parent's atfork handler. */
void thread_count_forked(void);
