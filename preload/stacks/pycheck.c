/* SPDX-License-Identifier: Apache-2.0 */
/* Compares frames read by layout with CPython's own answer, in the interpreter's main thread,
 * between two instructions, with the GIL held. CPython's functions are looked up by name, because
 * cprof is not linked to Python. */
#define _GNU_SOURCE
#include "preload/stacks/pycheck.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "preload/stacks/pyend.h"
#include "preload/stacks/pyframes.h"
#include "preload/stacks/stack_capture.h"
#include "writer/writer.h"

#define FRAMES       64u   /* compared, innermost first */
#define MISSED_LEAST 1000u /* stacks without Python frames that are reported */

typedef struct object object; /* PyObject */

/* Functions of CPython that are called: type, name, parameters. */
#define INTERPRETER                                                                                \
    F(object *, PyEval_GetFrame, (void))                                                           \
    F(object *, PyFrame_GetBack, (object *))                                                       \
    F(object *, PyFrame_GetCode, (object *))                                                       \
    F(int, PyFrame_GetLineNumber, (object *))                                                      \
    F(object *, PyObject_GetAttrString, (object *, const char *))                                  \
    F(object *, PySys_GetObject, (const char *))                                                   \
    F(const char *, PyUnicode_AsUTF8AndSize, (object *, intptr_t *))                               \
    F(void *, PyThreadState_Get, (void))                                                           \
    F(void *, PyGILState_GetThisThreadState, (void))                                               \
    F(intptr_t, PyList_Size, (object *))                                                           \
    F(object *, PyList_GetItem, (object *, intptr_t))                                              \
    F(void, PyErr_Clear, (void))                                                                   \
    F(int, Py_IsInitialized, (void))                                                               \
    F(int, Py_AddPendingCall, (int (*)(void *), void *))                                           \
    F(void, Py_IncRef, (object *))                                                                 \
    F(void, Py_DecRef, (object *))

static struct {
#define F(type, name, parameters) type(*name) parameters;
    INTERPRETER
#undef F
} py;

static bool find_functions(void)
{
#define F(type, name, parameters)                                                                  \
    *(void **)&py.name = loader_symbol(RTLD_DEFAULT, #name);                                       \
    if (!py.name)                                                                                  \
        return false;
    INTERPRETER
#undef F
    return true;
}

static void refuse_python(const char *why)
{
    char note[160];
    snprintf(note, sizeof note, "Python stacks are not recorded: %s", why);
    log_warn("%s; all else is", note);
    writer_note(note);
}

/* ---- the comparison ---- */

/* Whether `len` bytes are a whole name of n bytes, or as many whole characters of it as
 * pyframe_text holds. */
static bool is_whole_or_cut(uint32_t len, intptr_t n)
{
    const intptr_t most = sizeof((struct pyframe_text *)NULL)->room[0];
    return n == (intptr_t)len || (n > most && (intptr_t)len <= most && (intptr_t)len > most - 4);
}

/* Whether the attribute is this text. Text that is not UTF-8 cannot be compared and counts as
 * equal. */
static bool attribute_is(object *code, const char *name, const char *text, uint32_t len)
{
    object *value = py.PyObject_GetAttrString(code, name);
    intptr_t n = 0;
    const char *theirs = value ? py.PyUnicode_AsUTF8AndSize(value, &n) : NULL;
    bool same = !theirs || (is_whole_or_cut(len, n) && memcmp(theirs, text, len) == 0);
    py.PyErr_Clear();
    if (value)
        py.Py_DecRef(value);
    return same;
}

static bool frame_matches(object *frame, const struct pyframe *ours)
{
    static struct pyframe_text text; /* one call at a time, under the GIL */
    pyframes_describe(ours, &text);
    int line = py.PyFrame_GetLineNumber(frame);
    object *code = py.PyFrame_GetCode(frame);
    bool same = (const void *)code == ours->code && (line > 0 ? line : 0) == text.line &&
                attribute_is(code, "co_filename", text.file, text.file_len) &&
                attribute_is(code, "co_name", text.name, text.name_len);
    py.Py_DecRef(code);
    return same;
}

/* Compares the stack read by layout with the interpreter's, frame by frame. */
static bool same_stack(void)
{
    struct pyframe ours[FRAMES];
    bool more, same = true;
    unsigned n = pyframes_walk(pyframes_top(), ours, FRAMES, &more), i = 0;
    object *frame = py.PyEval_GetFrame();
    if (frame)
        py.Py_IncRef(frame);
    for (; frame && same && i < n; i++) {
        same = frame_matches(frame, &ours[i]);
        object *back = py.PyFrame_GetBack(frame);
        py.Py_DecRef(frame);
        frame = back;
    }
    same = same && n > 0 && i == n && (frame != NULL) == more;
    if (frame)
        py.Py_DecRef(frame);
    return same;
}

/* ---- other checks ---- */

/* Returns why this build is unsupported: without GIL, debug, or tracing references; NULL:
 * supported. */
static const char *unsupported_build(void)
{
    object *flags = py.PySys_GetObject("abiflags");
    intptr_t n;
    const char *text = flags ? py.PyUnicode_AsUTF8AndSize(flags, &n) : "";
    py.PyErr_Clear();
    if (!text || strchr(text, 't'))
        return "this Python has no GIL";
    if (strchr(text, 'd') || py.PySys_GetObject("gettotalrefcount") ||
        py.PySys_GetObject("getobjects"))
        return "this Python is a debug build";
    return NULL;
}

/* Passes on the folders of sys.path: paths in traces are shown without them, as Kineto does. */
static void trim_folders(void)
{
    object *path = py.PySys_GetObject("path");
    intptr_t n = path ? py.PyList_Size(path) : 0;
    for (intptr_t i = 0; i < n; i++) {
        object *folder = py.PyList_GetItem(path, i);
        intptr_t len;
        const char *text = folder ? py.PyUnicode_AsUTF8AndSize(folder, &len) : NULL;
        if (text)
            stacks_trim(text, (size_t)len);
        py.PyErr_Clear();
    }
    py.PyErr_Clear();
}

static _Atomic bool waiting;    /* check() is scheduled and has not run */
static _Atomic unsigned missed; /* stacks taken meanwhile */

static int check(void *unused)
{
    (void)unused;
    atomic_store(&waiting, false);
    const char *unsupported = unsupported_build();
    if (unsupported) {
        refuse_python(unsupported);
    } else if (py.PyThreadState_Get() != py.PyGILState_GetThisThreadState()) {
        refuse_python("its main thread runs a subinterpreter");
    } else if (!same_stack()) {
        refuse_python("the frames that cprof reads differ from those that it reports");
    } else if (!pyend_register()) {
        refuse_python("its atexit module cannot be used");
    } else {
        trim_folders();
        stack_capture_python(true);
        log_debug("Python stacks begin");
    }
    return 0;
}

void pycheck_start(void)
{
    const char *why;
    bool known = pyframes_layout(&why) != NULL;
    if (!known && !why[0])
        return; /* no Python here */
    if (!known) {
        refuse_python(why);
    } else if (!find_functions()) {
        refuse_python("it lacks functions of the C API");
    } else {
        atomic_store(&waiting, true);
        if (!py.Py_IsInitialized() || py.Py_AddPendingCall(check, NULL) != 0) {
            atomic_store(&waiting, false);
            refuse_python("it was not running yet when cprof started");
        }
    }
}

void pycheck_missed(void)
{
    if (atomic_load_explicit(&waiting, memory_order_relaxed))
        atomic_fetch_add_explicit(&missed, 1, memory_order_relaxed);
}

int pycheck_poll(bool stopping)
{
    (void)stopping;
    if (atomic_load_explicit(&missed, memory_order_relaxed) >= MISSED_LEAST && once_here()) {
        static const char note[] = "stacks begin without Python frames: Python's main thread, in "
                                   "which cprof checks them, runs no Python code (it waits in a "
                                   "join(), for example)";
        log_warn("%s", note);
        writer_note(note);
    }
    return -1;
}
