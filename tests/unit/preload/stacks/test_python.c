/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/stacks/python.h and pyend.h: no effect without Python, and right in a real
 * interpreter if this machine has one as a shared library. The test's main thread is the
 * interpreter's. */
#include "preload/stacks/python.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/stacks/pyend.h"
#include "tests/support/alloc.h"
#include "tests/support/capture.h"

START_TEST(does_nothing_without_python)
{
    ck_assert_ptr_null(python_first_argument("wrapper", "optimizer.py"));
    ck_assert_ptr_null(python_first_local("wrapper", "optimizer.py"));
    ck_assert_int_eq(python_left("profiler.py"), PYTHON_LEFT);
    ck_assert(!python_run_later("this is never run"));
}
END_TEST

/* ---- a real interpreter ---- */

static int (*run_text)(const char *);
static int minor;

/* NULL: Python is not installed, or a sanitizer would report the interpreter's memory as leaked. */
static void *open_python(void)
{
    char name[32];
    void *python = NULL;
    for (minor = 9; alloc_is_ours && !python && minor <= 15; minor++) {
        snprintf(name, sizeof name, "libpython3.%d.so.1.0", minor);
        python = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    minor--;
    return python;
}

static bool start_python(void)
{
    void *python = open_python();
    if (!python)
        return false;
    void (*initialize)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
    run_text = (int (*)(const char *))dlsym(python, "PyRun_SimpleString");
    initialize(0);
    return true;
}

static void end_python(void)
{
    int (*finalize)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_FinalizeEx");
    ck_assert_int_eq(finalize(), 0);
}

static void run(const char *code)
{
    ck_assert_int_eq(run_text(code), 0);
}

static const void *found[8], *local[8];
static int left[8];

static void probe_frames(int n)
{
    found[n] = python_first_argument("wrapper", "optimizer.py");
    local[n] = python_first_local("wrapper", "optimizer.py");
    left[n] = python_left("profiler.py");
}

/* Gives Python look(n), which calls probe_frames(), and define(), which defines functions in a file
 * of any name. */
static void prepare(void)
{
    char code[512];
    snprintf(code, sizeof code,
             "import ctypes\n"
             "look = ctypes.PYFUNCTYPE(None, ctypes.c_int)(%lu)\n"
             "def define(code, file):\n"
             "    exec(compile(code, file, 'exec'), globals())\n",
             (unsigned long)(uintptr_t)probe_frames);
    run(code);
}

START_TEST(finds_the_first_argument_of_a_frame)
{
    if (!start_python())
        return;
    prepare();
    run("class Optimizer: pass\n"
        "first, second = Optimizer(), Optimizer()\n"
        "define('def wrapper(*args, **kwargs):\\n'\n"
        "       '    return inner(lambda: look(kwargs[\"n\"]))\\n'\n"
        "       'def inner(f):\\n'\n"
        "       '    return f()\\n', '/lib/torch/optim/optimizer.py')\n"
        "wrapper(first, 1, n=0)\n"
        "wrapper(second, n=1)\n"
        "wrapper(n=2)\n" /* no argument at all */
        "look(3)\n"      /* there is no such frame */
        "define('def wrapper(*args, **kwargs): look(4)', '/lib/another.py')\n"
        "wrapper(first)\n"
        "define('def wrapper(self): look(5)', '/x/optimizer.py')\n"
        "wrapper(first)\n" /* not *args */
        "def deep(n): return look(6) if n == 0 else deep(n - 1)\n"
        "define('def wrapper(*args, **kwargs): deep(30)', '/x/optimizer.py')\n"
        "wrapper(first)\n");
    char code[256];
    void *expected[2] = {0};
    snprintf(code, sizeof code,
             "ctypes.c_void_p.from_address(%lu).value = id(first)\n"
             "ctypes.c_void_p.from_address(%lu).value = id(second)\n",
             (unsigned long)(uintptr_t)&expected[0], (unsigned long)(uintptr_t)&expected[1]);
    run(code);
    ck_assert_ptr_nonnull(expected[0]);
    ck_assert_ptr_eq(found[0], expected[0]);
    ck_assert_ptr_eq(found[1], expected[1]);
    for (int i = 2; i < 7; i++)
        ck_assert_msg(found[i] == NULL, "look(%d) must find no argument", i);
    ck_assert_ptr_eq(local[5], expected[0]);
    ck_assert_ptr_null(local[3]);
}
END_TEST

START_TEST(tells_how_a_with_block_ended)
{
    if (!start_python())
        return;
    prepare();
    run("define('class record:\\n'\n"
        "       '    def __init__(self, n): self.n = n\\n'\n"
        "       '    def __enter__(self): pass\\n'\n"
        "       '    def __exit__(self, exc_type, exc_value, traceback): look(self.n)\\n',\n"
        "       '/lib/torch/autograd/profiler.py')\n"
        "with record(0): pass\n"
        "try:\n"
        "    with record(1): raise StopIteration\n"
        "except StopIteration: pass\n"
        "with record(2): pass\n"
        "look(3)\n"
        "try:\n"
        "    with record(4): raise ValueError\n"
        "except ValueError: pass\n");
    ck_assert_int_eq(left[0], PYTHON_LEFT);
    ck_assert_int_eq(left[1], PYTHON_STOPPED);
    ck_assert_int_eq(left[2], PYTHON_LEFT);
    ck_assert_int_eq(left[3], PYTHON_LEFT);
    ck_assert_int_eq(left[4], PYTHON_LEFT_BY_ERROR);
}
END_TEST

START_TEST(runs_code_later)
{
    if (!start_python())
        return;
    capture_start();
    ck_assert(python_run_later("import os; os.write(2, b'it ran\\n')"));
    ck_assert_str_eq(capture_stderr(), ""); /* no message yet */
    run("for i in range(1000): pass\n");
    ck_assert_str_eq(capture_stderr(), "it ran\n");
}
END_TEST

/* A thread in C outlives the interpreter, whose end frees the thread's frames. Functions
 * registered first are called last. */
START_TEST(reads_nothing_once_the_interpreter_ends)
{
    if (!start_python())
        return;
    prepare();
    run("import atexit\n"
        "first = object()\n"
        "define('def wrapper(*args): look(args[1])', '/lib/optimizer.py')\n"
        "define('def __exit__(self, exc_type): look(2)', '/lib/profiler.py')\n"
        "atexit.register(lambda: __exit__(first, StopIteration))\n"
        "atexit.register(lambda: wrapper(first, 1))\n"
        "wrapper(first, 0)\n");
    left[2] = -1;
    end_python();
    ck_assert_ptr_nonnull(found[0]);
    ck_assert_ptr_null(found[1]);
    ck_assert_ptr_null(local[1]);
    ck_assert_int_eq(left[2], PYTHON_LEFT);
}
END_TEST

static _Atomic int reads; /* 1: reading, 2: finished */

/* Is still reading when the interpreter's end begins. */
static void *read_long(void *unused)
{
    ck_assert(pyend_read());
    atomic_store(&reads, 1);
    usleep(20000);
    atomic_store(&reads, 2);
    pyend_read_done();
    return unused;
}

START_TEST(interpreter_end_waits_for_readers)
{
    pthread_t thread;
    if (!start_python())
        return;
    ck_assert(pyend_watch());
    ck_assert_int_eq(pthread_create(&thread, NULL, read_long, NULL), 0);
    while (atomic_load(&reads) == 0)
        usleep(100);
    end_python();
    ck_assert_int_eq(atomic_load(&reads), 2);
    pthread_join(thread, NULL);
    ck_assert(!pyend_read());
}
END_TEST

/* As after a fork() in which another thread was reading. */
START_TEST(interpreter_end_stops_waiting_for_lost_readers)
{
    if (!start_python())
        return;
    ck_assert(pyend_read());
    end_python();
    ck_assert(!pyend_read());
}
END_TEST

/* A program with its own interpreter may start it late and end it early. */
START_TEST(refuses_calls_while_python_does_not_run)
{
    if (!open_python())
        return;
    ck_assert(python_find());
    ck_assert(!python_run_later("this is never run"));
    ck_assert(!pyend_watch() && !pyend_read());
    ck_assert(start_python());
    ck_assert(pyend_read());
    pyend_read_done();
    end_python();
    ck_assert(!python_run_later("this is never run"));
}
END_TEST

Suite *suite_python(void)
{
    Suite *suite = suite_create("python");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_test(all, does_nothing_without_python);
    tcase_add_test(all, finds_the_first_argument_of_a_frame);
    tcase_add_test(all, tells_how_a_with_block_ended);
    tcase_add_test(all, runs_code_later);
    tcase_add_test(all, reads_nothing_once_the_interpreter_ends);
    tcase_add_test(all, interpreter_end_waits_for_readers);
    tcase_add_test(all, interpreter_end_stops_waiting_for_lost_readers);
    tcase_add_test(all, refuses_calls_while_python_does_not_run);
    suite_add_tcase(suite, all);
    return suite;
}
