/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a piece of code where every system call kills the process: a seccomp filter of the kernel sees what no hook in the
 * program could. */
#ifndef TESTS_SUPPORT_SANDBOX_H
#define TESTS_SUPPORT_SANDBOX_H

/* Calls body() in a child process in which no system call is allowed but reading a clock and leaving; prepare() runs there first,
 * before the filter. Returns 0 when body() came back, -1 when this kernel or build takes no such filter, else the signal
 * that killed the child (SIGSYS: it made a system call). Main thread. */
int sandbox_run(void (*prepare)(void), void (*body)(void));

#endif
