/* SPDX-License-Identifier: Apache-2.0 */
/* Stops readers of frames when the interpreter ends, and lets threads that need it finish. */
#define _GNU_SOURCE
#include "preload/stacks/pyend.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "preload/stacks/python.h"
#include "preload/stacks/stack_capture.h"
#include "writer/writer.h"

#define FINISH_NS 500000000u

typedef struct object object; /* PyObject */

static _Atomic bool watched;     /* pyend_register() is scheduled or called; any thread */
static _Atomic bool ended;       /* the interpreter's main thread sets */
static _Atomic unsigned reading; /* threads between pyend_read() and pyend_read_done() */

bool pyend_read(void)
{
    if (!pyend_watch())
        return false;
    /* seq_cst: either the reader sees `ended`, or at_exit() sees the reader's count. */
    atomic_fetch_add(&reading, 1);
    if (!atomic_load(&ended))
        return true;
    pyend_read_done();
    return false;
}

void pyend_read_done(void)
{
    atomic_fetch_sub_explicit(&reading, 1, memory_order_release);
}

/* Limited: in a forked child the count may include a thread that does not exist. */
static void wait_for_readers(void)
{
    struct timespec pause = {.tv_nsec = 100000};
    for (int i = 0; i < 1000 && atomic_load(&reading) > 0; i++)
        nanosleep(&pause, NULL);
}

/* A thread of torch's pools wakes up the caller of a TorchScript or gloo call before it gives back
 * what the call used, which takes the interpreter's lock. CPython before 3.14 ends a thread that
 * waits for the lock while the interpreter ends (take_gil()). Inside a destructor, C++ then ends
 * the process. Recording makes these threads later, so they get their turn here. */
static void let_threads_finish(void)
{
    void *(*save)(void), (*restore)(void *);
    struct timespec pause = {.tv_nsec = 1000000};
    *(void **)&save = loader_symbol(RTLD_DEFAULT, "PyEval_SaveThread");
    *(void **)&restore = loader_symbol(RTLD_DEFAULT, "PyEval_RestoreThread");
    if (!save || !restore)
        return;
    void *state = save();
    uint64_t begun = clock_monotonic_ns();
    do
        nanosleep(&pause, NULL);
    while (clock_monotonic_ns() - begun < FINISH_NS && other_threads_run());
    restore(state);
}

/* Called by atexit, before the interpreter frees frames of threads that still run. */
static object *at_exit(object *self, object *unused)
{
    (void)self, (void)unused;
    let_threads_finish();
    stack_capture_python(false);
    atomic_store(&ended, true);
    wait_for_readers();
    object *none = loader_symbol(RTLD_DEFAULT, "_Py_NoneStruct");
    void (*incref)(object *) = (void (*)(object *))loader_symbol(RTLD_DEFAULT, "Py_IncRef");
    incref(none);
    return none;
}

/* Calls atexit.register(at_exit). Functions are looked up by name, because cprof is not linked to
 * Python. */
static bool call_at_exit(void)
{
    static const struct { /* PyMethodDef; METH_NOARGS is 4 */
        const char *name;
        object *(*call)(object *, object *);
        int flags;
        const char *doc;
    } method = {"cprof_python_ends", at_exit, 4, NULL};
    object *(*import)(const char *), *(*new_function)(const void *, object *, object *);
    object *(*call_method)(object *, const char *, const char *, ...);
    void (*decref)(object *), (*clear_error)(void);
    *(void **)&import = loader_symbol(RTLD_DEFAULT, "PyImport_ImportModule");
    *(void **)&new_function = loader_symbol(RTLD_DEFAULT, "PyCFunction_NewEx");
    *(void **)&call_method = loader_symbol(RTLD_DEFAULT, "PyObject_CallMethod");
    *(void **)&decref = loader_symbol(RTLD_DEFAULT, "Py_DecRef");
    *(void **)&clear_error = loader_symbol(RTLD_DEFAULT, "PyErr_Clear");
    if (!import || !new_function || !call_method || !decref || !clear_error ||
        !loader_symbol(RTLD_DEFAULT, "_Py_NoneStruct") || !loader_symbol(RTLD_DEFAULT, "Py_IncRef"))
        return false;
    object *module = import("atexit");
    object *function = new_function(&method, NULL, NULL);
    object *done = module && function ? call_method(module, "register", "O", function) : NULL;
    object *held[] = {module, function, done};
    for (unsigned i = 0; i < sizeof held / sizeof held[0]; i++)
        if (held[i])
            decref(held[i]);
    clear_error();
    return done != NULL;
}

bool pyend_register(void)
{
    static bool tried, registered; /* one thread at a time, under the GIL */
    if (!tried) {
        tried = true;
        registered = call_at_exit();
    }
    return registered;
}

static int register_now(void *unused)
{
    (void)unused;
    pyend_register();
    return 0;
}

bool pyend_watch(void)
{
    if (!atomic_load_explicit(&watched, memory_order_relaxed) && python_find() &&
        python_call_later(register_now, NULL))
        atomic_store_explicit(&watched, true, memory_order_relaxed);
    return atomic_load_explicit(&watched, memory_order_relaxed);
}
