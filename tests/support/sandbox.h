/* SPDX-License-Identifier: Apache-2.0 */
/* Runs code under seccomp filters, where system calls kill the process or fail. The kernel sees
 * calls that no hook in the program can see. */
#pragma once

#include <stdbool.h>

/* Calls prepare() and then body() in a child process. During body() only clock_gettime() and
 * exit_group() are allowed. Returns 0 if body() returned, -1 if this kernel or build cannot filter,
 * else the signal that killed the child (SIGSYS: a forbidden system call). Main thread. */
int sandbox_run(void (*prepare)(void), void (*body)(void));

/* Makes the creation of threads fail with EAGAIN in this process. False if this kernel or build
 * cannot filter. Main thread. */
bool sandbox_deny_threads(void);
