/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the interpreter. It frees the frames of threads that still run (daemon threads, in C
 * without the GIL) while those may be reading them: so it tells, before it begins to free, and
 * waits for who is reading. */
#ifndef PRELOAD_STACKS_PYEND_H
#define PRELOAD_STACKS_PYEND_H

#include <stdbool.h>

/* Has the interpreter's main thread call pyend_register() at its next chance. True: it will, or
 * has. False: there is no interpreter yet, or too much waits already; ask again. Takes the loader's
 * lock the first time. Any thread. */
bool pyend_watch(void);

/* Has `atexit` tell when the interpreter ends; once, however often it is called. False: it cannot.
 * Main thread, holding the GIL. */
bool pyend_register(void);

/* True: the interpreter is there, and its end waits, at most some 100 ms, for pyend_read_done().
 * False: nothing of it may be read. Between the two, no call that may wait for the GIL. Not for hot
 * paths: threads share one counter; preload/stacks/stack_capture.c has its own. Any thread. */
bool pyend_read(void);

/* The same thread has read. */
void pyend_read_done(void);

#endif
