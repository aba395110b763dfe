/* SPDX-License-Identifier: Apache-2.0 */
/* Code run where system calls kill the process or fail: a seccomp filter of the kernel sees what no
 * hook in the program could. */
#ifndef TESTS_SUPPORT_SANDBOX_H
#define TESTS_SUPPORT_SANDBOX_H

#include <stdbool.h>

/* Calls body() in a child process in which no system call is allowed but reading a clock and
 * leaving; prepare() runs there first, before the filter. Returns 0 when body() came back, -1 when
 * this kernel or build takes no such filter, else the signal that killed the child (SIGSYS: it made
 * a system call). Main thread. */
int sandbox_run(void (*prepare)(void), void (*body)(void));

/* From now on this process gets no more threads (EAGAIN). False when this kernel or build takes no
 * such filter. Main thread. */
bool sandbox_deny_threads(void);

#endif
