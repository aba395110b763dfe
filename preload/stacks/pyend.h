/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the interpreter. It frees frames of threads that still run (daemon threads in C code,
 * without the GIL), while they may read them. An atexit function therefore stops new readers and
 * waits for current ones. Before that, it lets threads finish that ended TorchScript calls of
 * others: these may need the interpreter's lock. */
#pragma once

#include <stdbool.h>

/* Schedules pyend_register() in the main thread. Returns true if it is scheduled or done; false: no
 * interpreter yet, or its queue is full, so ask again. The first call takes the loader's lock. Any
 * thread. */
bool pyend_watch(void);

/* Registers with Python's `atexit`, once. False: it cannot. Main thread, with the GIL. */
bool pyend_register(void);

/* True: the interpreter's end waits for pyend_read_done(), at most some 100 ms. False: its memory
 * must not be read. Make no call between the two that may wait for the GIL. Not for hot paths,
 * because threads share one counter; stack_capture.c has its own. Any thread. */
bool pyend_read(void);

/* Ends pyend_read(). Same thread. */
void pyend_read_done(void);
