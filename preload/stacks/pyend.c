/* SPDX-License-Identifier: Apache-2.0 */
/* Stops reading frames when the interpreter ends. */
#define _GNU_SOURCE
#include "preload/stacks/pyend.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "preload/stacks/python.h"
#include "preload/stacks/stack_capture.h"

typedef struct object object; /* PyObject */

static _Atomic bool watched;     /* pyend_register() is called, or was; any thread */
static _Atomic bool ended;       /* the interpreter's main thread sets */
static _Atomic unsigned reading; /* threads between pyend_read() and its end */

bool pyend_read(void)
{
    if (!pyend_watch())
        return false;
    /* Of the two, to count and to look, and of the end's two, to set and to look at the count, one
     * sees the other: seq_cst. */
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

/* In a forked child the count may hold a thread that is not there: the wait has an end. */
static void wait_for_readers(void)
{
    struct timespec pause = {.tv_nsec = 100000};
    for (int i = 0; i < 1000 && atomic_load(&reading) > 0; i++)
        nanosleep(&pause, NULL);
}

/* Called by atexit, before the interpreter begins to free what belongs to threads that still
 * run. */
static object *at_exit(object *self, object *unused)
{
    (void)self, (void)unused;
    stack_capture_python(false);
    atomic_store(&ended, true);
    wait_for_readers();
    object *none = loader_symbol(RTLD_DEFAULT, "_Py_NoneStruct");
    void (*hold)(object *) = (void (*)(object *))loader_symbol(RTLD_DEFAULT, "Py_IncRef");
    hold(none);
    return none;
}

/* atexit.register(at_exit), by functions that are looked up by name, as nothing of Python is
 * linked. */
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
    void (*let_go)(object *), (*clear_error)(void);
    *(void **)&import = loader_symbol(RTLD_DEFAULT, "PyImport_ImportModule");
    *(void **)&new_function = loader_symbol(RTLD_DEFAULT, "PyCFunction_NewEx");
    *(void **)&call_method = loader_symbol(RTLD_DEFAULT, "PyObject_CallMethod");
    *(void **)&let_go = loader_symbol(RTLD_DEFAULT, "Py_DecRef");
    *(void **)&clear_error = loader_symbol(RTLD_DEFAULT, "PyErr_Clear");
    if (!import || !new_function || !call_method || !let_go || !clear_error ||
        !loader_symbol(RTLD_DEFAULT, "_Py_NoneStruct") || !loader_symbol(RTLD_DEFAULT, "Py_IncRef"))
        return false;
    object *module = import("atexit");
    object *function = new_function(&method, NULL, NULL);
    object *done = module && function ? call_method(module, "register", "O", function) : NULL;
    object *held[] = {module, function, done};
    for (unsigned i = 0; i < sizeof held / sizeof held[0]; i++)
        if (held[i])
            let_go(held[i]);
    clear_error();
    return done != NULL;
}

bool pyend_register(void)
{
    static bool tried, will_tell; /* one thread at a time: the GIL */
    if (!tried) {
        tried = true;
        will_tell = call_at_exit();
    }
    return will_tell;
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
