/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work with files, aside: on a thread of ours whose table of descriptors is its own.
 *
 * A descriptor of ours in the program's table is open for moments only, and still in its way:
 *
 *   closefrom(3), then open()    The program closes ours in the middle of a write and gets the number for a checkpoint: the rest of our
 *                                write lands there, and our close() closes it (tests/e2e/c/descriptors.c does so within seconds).
 *   close(0), then open()        It counts on the number that it has given back, and gets another one.
 *   fcntl() locks                A process loses its locks on a file as soon as any descriptor of that file is closed.
 *   RLIMIT_NOFILE, /proc/PID/fd  It meets its limit a descriptor early, and finds one that it does not know.
 *
 * The cprof thread itself has to stay in the program's table: CUPTI, trace handlers and stderr are there. So what opens a file and closes it
 * again is handed to the other thread, and waited for: only one of the two ever runs, and what they share needs no lock. The other
 * thread is made with the first such work. Its table begins empty (close_range(2) with CLOSE_RANGE_UNSHARE, Linux 5.9), nothing is copied:
 * a pipe that the program closes is closed. Where that is refused, or no thread is to be had, the work is done where it is asked for.
 */
#ifndef WRITER_ASIDE_H
#define WRITER_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns 0 or an errno value: each thread has an errno of its own. */
typedef int aside_work(void *arg);

/* Work of this thread goes aside from now on. `began` is called first of all on the other thread; or NULL. cprof thread, once. */
void aside_begin(void (*began)(void));

/* Does it aside, and returns what it returned. Descriptors that it leaves open are there for later work of this kind only. On any thread
 * but that of aside_begin() it is simply called. */
int aside_run(aside_work *work, void *arg);

/* For what needs the cprof thread or the program's descriptors within such work: does it on the thread that waits for the work, which may ask
 * for more work aside in it. Else it is simply called. Any thread. */
int aside_back(aside_work *work, void *arg);

/* CPU time that such work has taken so far, ns. cprof thread. */
uint64_t aside_cpu_ns(void);

/* The other thread ends. cprof thread. */
void aside_end(void);

/* In a forked child, which has neither of the two threads. */
void aside_abandon(void);

#endif
