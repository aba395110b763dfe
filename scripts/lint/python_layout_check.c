/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the LAYOUT row of preload/stacks/pyframes.def for the CPython whose headers it is compiled
 * with, and from 3.13 on the OFFSETS row:
 *
 *     cc -I$include -I$include/internal scripts/lint/python_layout_check.c && ./a.out
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_runtime.h>
#endif

#if PY_VERSION_HEX < 0x030a0000
#define LINES co_lnotab
#define TABLE "LNOTAB"
#elif PY_VERSION_HEX < 0x030b0000
#define LINES co_linetable
#define TABLE "RANGES"
#else
#define LINES co_linetable
#define TABLE "LOCATIONS"
#endif

#if PY_VERSION_HEX < 0x030b0000
#define FRAME(field) (int)offsetof(struct _frame, field)
#define THREAD       (int)offsetof(PyThreadState, frame), -1
#define FRAME_FIELDS FRAME(f_code), FRAME(f_back), FRAME(f_lasti), -1, FRAME(f_localsplus)
#define BYTECODE     -1, -1
#else
#define FRAME(field) (int)offsetof(_PyInterpreterFrame, field)
#define CODE(field)  (int)offsetof(PyCodeObject, field)
#define BYTECODE     CODE(co_code_adaptive), CODE(_co_firsttraceable)
#if PY_VERSION_HEX < 0x030d0000
#define THREAD (int)offsetof(PyThreadState, cframe), (int)offsetof(_PyCFrame, current_frame)
#define FRAME_FIELDS                                                                               \
    FRAME(f_code), FRAME(previous), FRAME(prev_instr), FRAME(owner), FRAME(localsplus)
#else
#define THREAD (int)offsetof(PyThreadState, current_frame), -1
#define FRAME_FIELDS                                                                               \
    FRAME(f_executable), FRAME(previous), FRAME(instr_ptr), FRAME(owner), FRAME(localsplus)
#endif
#endif

#if PY_VERSION_HEX < 0x030c0000
#define CODE_VERSION -1
#else
#define CODE_VERSION (int)offsetof(PyCodeObject, co_version)
#endif

static void print_row(const char *kind, const int *numbers, size_t n, const char *end)
{
    printf("%s(", kind);
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i ? ", " : "", numbers[i]);
    printf("%s)\n", end);
}

#if PY_VERSION_HEX >= 0x030d0000
#define AT(field) (int)offsetof(_Py_DebugOffsets, field)
static void print_told(void)
{
    const int numbers[] = {PY_MINOR_VERSION,
                           AT(thread_state.current_frame),
                           AT(interpreter_frame.previous),
                           AT(interpreter_frame.executable),
                           AT(interpreter_frame.instr_ptr),
                           AT(interpreter_frame.localsplus),
                           AT(interpreter_frame.owner),
                           AT(code_object.filename),
                           AT(code_object.name),
                           AT(code_object.linetable),
                           AT(code_object.firstlineno),
                           AT(code_object.co_code_adaptive),
                           AT(pyobject.ob_type),
                           AT(bytes_object.ob_size),
                           AT(bytes_object.ob_sval),
                           AT(unicode_object.state),
                           AT(unicode_object.length),
                           AT(unicode_object.asciiobject_size)};
    print_row("OFFSETS", numbers, sizeof numbers / sizeof *numbers, "");
}
#else
static void print_told(void)
{
}
#endif

int main(void)
{
    const int numbers[] = {PY_MINOR_VERSION,
                           THREAD,
                           FRAME_FIELDS,
                           (int)offsetof(PyCodeObject, co_filename),
                           (int)offsetof(PyCodeObject, co_name),
                           (int)offsetof(PyCodeObject, LINES),
                           (int)offsetof(PyCodeObject, co_firstlineno),
                           BYTECODE,
                           CODE_VERSION,
                           (int)sizeof(PyASCIIObject),
                           (int)sizeof(PyCompactUnicodeObject)};
    print_row("LAYOUT", numbers, sizeof numbers / sizeof *numbers, ", " TABLE);
    print_told();
    return 0;
}
