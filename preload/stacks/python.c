/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the interpreter, reads its objects, and runs code in it. */
#define _GNU_SOURCE
#include "preload/stacks/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/stacks/pyend.h"
#include "preload/stacks/pyframes.h"
#include "writer/writer.h"

/* Searched frames: the range is opened two or three calls below the searched function. */
#define FRAMES 8

#define TYPE_OF     8u /* PyObject.ob_type */
#define TUPLE_SIZE  16u
#define TUPLE_ITEMS 24u /* from 3.14 on, behind the tuple's hash */

/* Objects of the interpreter that others are compared with. */
static const void *tuple_type, *none;
static const void *const *stop_iteration;

/* Threads may look up at the same time, with the same result. */
static bool has_layout(void)
{
    static _Atomic bool looked;
    if (!atomic_load_explicit(&looked, memory_order_acquire)) {
        tuple_type = loader_symbol(RTLD_DEFAULT, "PyTuple_Type");
        none = loader_symbol(RTLD_DEFAULT, "_Py_NoneStruct");
        stop_iteration = loader_symbol(RTLD_DEFAULT, "PyExc_StopIteration");
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    return pyframes_layout(NULL) != NULL;
}

static const void *at(const void *object, int offset)
{
    const void *value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

/* The n-th local variable; NULL: unset. From 3.14 on the lowest bits are a tag; 3 means a
 * number. */
static const void *local_of(const void *frame, int n)
{
    uintptr_t value =
        (uintptr_t)at(frame, pyframes_layout(NULL)->f_locals + n * (int)sizeof(void *));
    return (value & 3) == 3 ? NULL : (const void *)(value & ~(uintptr_t)3);
}

static bool ends_in(const char *text, uint32_t len, const char *ending)
{
    size_t wanted = strlen(ending);
    return len >= wanted && memcmp(text + len - wanted, ending, wanted) == 0;
}

/* True: frames stay until pyend_read_done(). */
static bool read_begins(void)
{
    return has_layout() && pyend_read();
}

/* The calling thread's innermost frame of this function, or NULL. */
static const void *find_frame(const char *function, const char *file)
{
    const void *frame = pyframes_top();
    for (int i = 0; frame && i < FRAMES; i++, frame = pyframes_outer(frame)) {
        struct pyframe one;
        struct pyframe_text text;
        bool more;
        if (pyframes_walk(frame, &one, 1, &more) == 0)
            break;
        pyframes_describe(&one, &text);
        if (ends_in(text.name, text.name_len, function) && ends_in(text.file, text.file_len, file))
            return frame;
    }
    return NULL;
}

static const void *first_argument(const char *function, const char *file)
{
    const void *frame = find_frame(function, file);
    const void *args = frame ? local_of(frame, 0) : NULL;
    int64_t n = 0;
    if (!args || at(args, TYPE_OF) != tuple_type)
        return NULL;
    memcpy(&n, (const char *)args + TUPLE_SIZE, sizeof n);
    int items = (int)TUPLE_ITEMS + (pyframes_layout(NULL)->minor >= 14 ? (int)sizeof(intptr_t) : 0);
    return n > 0 ? at(args, items) : NULL;
}

const void *python_first_argument(const char *function, const char *file)
{
    if (!read_begins())
        return NULL;
    const void *found = first_argument(function, file);
    pyend_read_done();
    return found;
}

const void *python_first_local(const char *function, const char *file)
{
    if (!read_begins())
        return NULL;
    const void *frame = find_frame(function, file);
    const void *found = frame ? local_of(frame, 0) : NULL;
    pyend_read_done();
    return found;
}

static enum python_exit read_exit(const char *file)
{
    const void *frame = find_frame("__exit__", file);
    const void *type = frame ? local_of(frame, 1) : NULL; /* behind self */
    if (!type || type == none)
        return PYTHON_LEFT;
    return stop_iteration && type == *stop_iteration ? PYTHON_STOPPED : PYTHON_LEFT_BY_ERROR;
}

enum python_exit python_left(const char *file)
{
    if (!read_begins())
        return PYTHON_LEFT;
    enum python_exit how = read_exit(file);
    pyend_read_done();
    return how;
}

static int run_now(void *code)
{
    int (*run)(const char *, void *) =
        (int (*)(const char *, void *))loader_symbol(RTLD_DEFAULT, "PyRun_SimpleStringFlags");
    if (run)
        run(code, NULL);
    return 0;
}

/* Py_AddPendingCall and Py_IsInitialized, once found; any thread. */
static int (*_Atomic add_pending)(int (*)(void *), void *);
static int (*_Atomic is_initialized)(void);

bool python_find(void)
{
    if (!atomic_load_explicit(&add_pending, memory_order_relaxed)) {
        atomic_store_explicit(&is_initialized,
                              (int (*)(void))loader_symbol(RTLD_DEFAULT, "Py_IsInitialized"),
                              memory_order_relaxed);
        atomic_store_explicit(
            &add_pending,
            (int (*)(int (*)(void *), void *))loader_symbol(RTLD_DEFAULT, "Py_AddPendingCall"),
            memory_order_release);
    }
    return atomic_load_explicit(&add_pending, memory_order_relaxed) != NULL;
}

/* Before its start and after its end, the interpreter has no list of pending calls. */
bool python_call_later(int (*call)(void *), void *arg)
{
    int (*add)(int (*)(void *), void *) = atomic_load_explicit(&add_pending, memory_order_acquire);
    int (*runs)(void) = atomic_load_explicit(&is_initialized, memory_order_relaxed);
    return add && runs && runs() && add(call, arg) == 0;
}

bool python_is_free_threaded(void)
{
    return loader_symbol(RTLD_DEFAULT, "_Py_MergeZeroLocalRefcount") != NULL;
}

const void *python_type_of(const void *object)
{
    return python_is_free_threaded() ? NULL
                                     : *(const void *const *)((const char *)object + TYPE_OF);
}

/* The lower half of the reference count is the whole count, or is never 0 (immortal objects, 3.12
 * and later). */
bool python_is_gone(const void *object, const void *type)
{
    struct {
        uint32_t references, rest;
        const void *type;
    } now;
    int saved = errno;
    bool gone = own_memory_copy(object, &now, sizeof now) ? now.references == 0 || now.type != type
                                                          : errno == EFAULT;
    errno = saved;
    return gone;
}

bool python_run_later(const char *code)
{
    return python_find() && python_call_later(run_now, (void *)(uintptr_t)code);
}
