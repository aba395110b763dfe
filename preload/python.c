/* SPDX-License-Identifier: Apache-2.0 */
/* See python.h. Offsets seen by compiling against each version's headers (3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0). */
#define _GNU_SOURCE
#include "preload/python.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* looked at: the range is opened two or three calls below the function that is searched */
#define FRAMES 8

/* Offsets in bytes. */
struct python_layout {
    int minor;
    uint16_t thread_frame; /* PyThreadState: the frame, or what points to it */
    int16_t cframe;        /* where the frame is in that (_PyCFrame); -1: it is the frame */
    uint16_t frame_code, frame_back, frame_locals;
    int16_t frame_owner; /* char: frames of 3 and more hold no code; -1: no such field */
    uint16_t code_file, code_name;
    uint16_t text; /* characters of a compact ASCII string */
};

static const struct python_layout layouts[] = {
    {9, 24, -1, 32, 24, 360, -1, 104, 112, 48}, {10, 24, -1, 32, 24, 352, -1, 104, 112, 48},
    {11, 56, 8, 32, 48, 72, 69, 112, 120, 48},  {12, 56, 0, 0, 8, 72, 70, 112, 120, 40},
    {13, 72, -1, 0, 8, 72, 70, 112, 120, 40},
};

#define TYPE_OF     8u  /* PyObject.ob_type */
#define TEXT_LENGTH 16u /* PyASCIIObject.length */
#define TEXT_STATE  32u /* PyASCIIObject.state: compact is bit 5, ascii bit 6 */
#define TUPLE_SIZE  16u
#define TUPLE_ITEMS 24u

static void *(*this_thread)(void);
static const void *tuple_type, *none;
static const void *const *stop_iteration;
static const struct python_layout *layout;

static const void *at(const void *object, int offset)
{
    const void *value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static const struct python_layout *look(void)
{
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion");
    *(void **)&this_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    tuple_type = dlsym(RTLD_DEFAULT, "PyTuple_Type");
    none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    stop_iteration = dlsym(RTLD_DEFAULT, "PyExc_StopIteration");
    int major = 0, minor = 0;
    if (!version || !this_thread || !tuple_type ||
        sscanf(version(), "%d.%d", &major, &minor) != 2 || major != 3 ||
        dlsym(RTLD_DEFAULT, "_Py_MergeZeroLocalRefcount")) /* free-threaded builds have it */
        return NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].minor == minor)
            return &layouts[i];
    return NULL;
}

/* Once; several threads may do it at the same time and come to the same result. */
static bool known(void)
{
    static _Atomic bool looked;
    if (!atomic_load_explicit(&looked, memory_order_acquire)) {
        layout = look();
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    return layout != NULL;
}

/* True when a Python string is plain ASCII and ends in `ending`. */
static bool ends_in(const void *text, const char *ending)
{
    uint32_t state;
    int64_t length;
    memcpy(&state, (const char *)text + TEXT_STATE, sizeof state);
    memcpy(&length, (const char *)text + TEXT_LENGTH, sizeof length);
    int64_t wanted = (int64_t)strlen(ending);
    if ((state & 0x60) != 0x60 || length < wanted)
        return false;
    return memcmp((const char *)text + layout->text + length - wanted, ending, (size_t)wanted) == 0;
}

static bool has_code(const void *frame)
{
    return layout->frame_owner < 0 || ((const char *)frame)[layout->frame_owner] < 3;
}

/* The calling thread's innermost frame of this function, or NULL. */
static const void *find_frame(const char *function, const char *file)
{
    const void *thread = known() ? this_thread() : NULL;
    const void *frame = thread ? at(thread, layout->thread_frame) : NULL;
    if (frame && layout->cframe >= 0)
        frame = at(frame, layout->cframe);
    for (int i = 0; frame && i < FRAMES; i++, frame = at(frame, layout->frame_back)) {
        const void *code = has_code(frame) ? at(frame, layout->frame_code) : NULL;
        if (code && ends_in(at(code, layout->code_name), function) &&
            ends_in(at(code, layout->code_file), file))
            return frame;
    }
    return NULL;
}

const void *python_first_argument(const char *function, const char *file)
{
    const void *frame = find_frame(function, file);
    const void *args = frame ? at(frame, layout->frame_locals) : NULL;
    int64_t n = 0;
    if (!args || at(args, TYPE_OF) != tuple_type)
        return NULL;
    memcpy(&n, (const char *)args + TUPLE_SIZE, sizeof n);
    return n > 0 ? at(args, TUPLE_ITEMS) : NULL;
}

const void *python_first_local(const char *function, const char *file)
{
    const void *frame = find_frame(function, file);
    return frame ? at(frame, layout->frame_locals) : NULL;
}

enum python_exit python_left(const char *file)
{
    const void *frame = find_frame("__exit__", file);
    const void *type =
        frame ? at(frame, layout->frame_locals + (int)sizeof type) : NULL; /* behind self */
    if (!type || type == none)
        return PYTHON_LEFT;
    return stop_iteration && type == *stop_iteration ? PYTHON_STOPPED : PYTHON_LEFT_BY_ERROR;
}

static int run_now(void *code)
{
    int (*run)(const char *, void *) =
        (int (*)(const char *, void *))dlsym(RTLD_DEFAULT, "PyRun_SimpleStringFlags");
    if (run)
        run(code, NULL);
    return 0;
}

bool python_run_later(const char *code)
{
    int (*add)(int (*)(void *), void *) =
        (int (*)(int (*)(void *), void *))dlsym(RTLD_DEFAULT, "Py_AddPendingCall");
    return add && add(run_now, (void *)(uintptr_t)code) == 0;
}
