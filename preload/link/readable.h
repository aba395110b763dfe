/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be read, for libunwind, without a descriptor. Of memory that its tables do not vouch for
 * (code made at run time) it learns by writing a byte of it to a pipe, which it opens once and
 * keeps in the program's table. A program that closes all descriptors and opens files of its own
 * then has bytes of them taken and others written (tests/e2e/c/made_code.c).
 */
#ifndef PRELOAD_LINK_READABLE_H
#define PRELOAD_LINK_READABLE_H

#include <stdbool.h>

/* Whether the byte may be read. Keeps errno. Any thread, also in a signal handler. */
bool readable(const void *address);

/* Has a loaded libunwind (dlopen's handle), before it is first used, ask in that way: its calls of
 * pipe2, read, write and syscall are redirected. Another program's use of the same libunwind goes
 * the same way. Where its calls have other names, it goes on as it was. */
void readable_without_pipe(void *libunwind);

#endif
