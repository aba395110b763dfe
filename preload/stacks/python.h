/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CPython objects by layout, without the GIL: a thread's own frames do not change while it is
 * in C. After the interpreter's end (pyend.h) nothing is found. Also runs Python code, for what
 * cannot be read from C. */
#pragma once

#include <stdbool.h>

/* The first positional argument of the calling thread's innermost frame of `function`, in a file
 * whose path ends in `file`; an identity, not a reference. Searches the innermost few frames. The
 * function must take *args. NULL: no such frame, no Python, or an unknown layout (pyframes.def).
 * Any thread, no GIL. */
const void *python_first_argument(const char *function, const char *file);

/* The type of an object that exists, as an identity. NULL in free-threaded builds, whose objects
 * have another layout. */
const void *python_type_of(const void *object);

/* Whether an object that had this type is gone: it has no references, or its memory holds something
 * else. The kernel reads it, so invalid addresses are safe. */
bool python_is_gone(const void *object, const void *type);

/* As python_first_argument(), but returns the first local variable: the first parameter, if any. */
const void *python_first_local(const char *function, const char *file);

/* How a `with` block ends. */
enum python_exit {
    PYTHON_LEFT,          /* without an exception, or unknown */
    PYTHON_STOPPED,       /* by StopIteration */
    PYTHON_LEFT_BY_ERROR, /* by another exception */
};

/* What the arguments of the calling thread's innermost `__exit__` tell; searched as in
 * python_first_argument(). Any thread, no GIL. */
enum python_exit python_left(const char *file);

/* Finds Python; true if it exists. Takes the loader's lock, so call without cprof's locks. Any
 * thread. */
bool python_find(void);

/* Schedules call(arg) in the main thread, with the GIL. call() returns 0 and leaves no exception
 * set. Returns false if python_find() found no Python, it does not run, or its queue is full. Any
 * thread; does not take the loader's lock. */
bool python_call_later(int (*call)(void *), void *arg);

/* Whether this is a free-threaded build. Any thread. */
bool python_is_free_threaded(void);

/* Schedules `code` (static text) in the main thread. False: no Python. Any thread. */
bool python_run_later(const char *code);
