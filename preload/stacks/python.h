/* SPDX-License-Identifier: Apache-2.0 */
/* The CPython of this process, read by layout without the GIL: a thread's own frames do not change
 * while it is in C, until the interpreter ends (pyend.h): from then on nothing is found. And the
 * one way to run a piece of Python, for what cannot be seen from C. */
#ifndef PRELOAD_STACKS_PYTHON_H
#define PRELOAD_STACKS_PYTHON_H

#include <stdbool.h>

/* The object that is the first positional argument of the calling thread's innermost frame whose
 * code is named `function` in a file whose path ends in `file`, looked for in the innermost few
 * frames: an identity, not a reference. The function must take *args. NULL: no such frame, no
 * Python, or an interpreter whose layout is not known (pyframes.def). Any thread, no GIL. */
const void *python_first_argument(const char *function, const char *file);

/* The type of an object that is there: an identity. NULL where objects are laid out otherwise
 * (without a GIL). */
const void *python_type_of(const void *object);

/* Whether an object that had this type is no more: nobody refers to it, or something else lies
 * there. It is read by the kernel, which knows what may be read. */
bool python_is_gone(const void *object, const void *type);

/* The first local variable of the same: the first parameter of a function that takes some. */
const void *python_first_local(const char *function, const char *file);

/* How a block is left. */
enum python_exit {
    PYTHON_LEFT,          /* without an exception, or it cannot be seen */
    PYTHON_STOPPED,       /* by StopIteration */
    PYTHON_LEFT_BY_ERROR, /* by another exception */
};

/* What the `__exit__` (innermost few frames, as above) was told that the calling thread is in. Any
 * thread, no GIL. */
enum python_exit python_left(const char *file);

/* Looks for Python; true when it is there. Takes the loader's lock, so not under one of ours. Any
 * thread. */
bool python_find(void);

/* Calls call(arg) in the main thread, holding the interpreter's lock, at its next chance; it
 * returns 0 and leaves no exception. false: python_find() has not found Python, it does not run, or
 * too much waits for that already. Any thread, takes no lock of the loader's. */
bool python_call_later(int (*call)(void *), void *arg);

/* True in an interpreter that runs its threads without a lock. Any thread. */
bool python_is_free_threaded(void);

/* Runs `code` (static text) in the main thread at the interpreter's next chance. false: there is no
 * Python. Any thread. */
bool python_run_later(const char *code);

#endif
