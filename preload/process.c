/* SPDX-License-Identifier: Apache-2.0 */
/* lint: ends the process on behalf of the program */
/*
 * _exit and _Exit; see process.h. They run on any application thread, in signal handlers, and in
 * vfork children, which share the memory of a parent that goes on: what they look at first is whose
 * process this is.
 */
#include "preload/process.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/guard.h"
#include "preload/init.h"

#define EXPORT __attribute__((visibility("default")))

typedef void exit_function(int status);

/* Written in the constructor, before any other thread; read by the wrappers. */
static exit_function *next_underscore_exit;
static exit_function *next_c99_exit;

void process_start(void)
{
    *(void **)&next_underscore_exit = dlsym(RTLD_NEXT, "_exit");
    *(void **)&next_c99_exit = dlsym(RTLD_NEXT, "_Exit");
}

/* In a signal handler the interrupted code may be cprof's own: cprof_at_exit() waits for no lock
 * without a limit, and a record that was being written is not yet committed. */
static void finish_traces(void)
{
    int owner = cprof_owner_pid();
    if (owner == 0 || owner != (int)syscall(SYS_getpid))
        return; /* not awake, a forked child, or a vfork child in its parent's memory */
    bool entered = guard_enter();
    cprof_at_exit();
    if (entered)
        guard_leave();
}

static _Noreturn void leave(exit_function *next, int status)
{
    if (next)
        next(status);
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Exported without a version, as exports.map explains. */
__asm__(".symver process_leave_posix, _exit@@");
__asm__(".symver process_leave_c99, _Exit@@");

EXPORT _Noreturn void process_leave_posix(int status);
EXPORT _Noreturn void process_leave_c99(int status);

EXPORT void process_leave_posix(int status)
{
    finish_traces();
    leave(next_underscore_exit, status);
}

EXPORT void process_leave_c99(int status)
{
    finish_traces();
    leave(next_c99_exit, status);
}
