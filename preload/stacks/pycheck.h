/* SPDX-License-Identifier: Apache-2.0 */
/* Before Python stacks are recorded, the interpreter itself is asked: in its main thread, holding
 * the GIL, one stack that is read by layout is compared with what its own functions say of it.
 * Python stacks stay off, with one line, when that differs in anything, or when the interpreter is
 * of a kind that is not read: unknown, without GIL, a debug build, a subinterpreter. */
#ifndef PRELOAD_STACKS_PYCHECK_H
#define PRELOAD_STACKS_PYCHECK_H

/* Asks for the comparison at the interpreter's next chance. Nothing in a process without Python.
 * Once, at wake-up. */
void pycheck_start(void);

#endif
