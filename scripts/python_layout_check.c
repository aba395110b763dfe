/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the LAYOUT row of preload/pyframes.def for the CPython whose headers it is compiled with:
 *
 *     cc -I$include -I$include/internal scripts/python_layout_check.c && ./a.out
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
    printf("LAYOUT(");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        printf("%d, ", numbers[i]);
    printf(TABLE ")\n");
    return 0;
}
