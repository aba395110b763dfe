/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether memory is readable, for libunwind, without a descriptor. libunwind tests code made
 * at run time by writing a byte of it to a pipe, which stays in the program's descriptor table. A
 * program that closes all descriptors and opens its own would lose or get such bytes
 * (tests/e2e/c/made_code.c). */
#pragma once

#include <stdbool.h>

/* Whether the byte is readable. Keeps errno. Any thread, also in a signal handler. */
bool readable(const void *address);

/* Makes a loaded libunwind (dlopen's handle) use readable(), by redirecting its calls of pipe2,
 * read, write and syscall. Call it before libunwind is first used. It also affects other users of
 * this libunwind in the process. Does nothing if libunwind calls other functions. */
void readable_without_pipe(void *libunwind);
