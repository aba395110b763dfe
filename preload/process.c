/* SPDX-License-Identifier: Apache-2.0 */
/* lint: ends the process on behalf of the program */
/*
 * _exit, _Exit and kill; see process.h. They run on any application thread, in signal handlers, and in
 * vfork children, which share the memory of a parent that goes on: what they look at first is whose
 * process this is.
 */
#include "preload/process.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/guard.h"
#include "preload/init.h"
#include "preload/resolve.h"
#include "writer/writer.h"

#define EXPORT __attribute__((visibility("default")))

typedef void exit_function(int status);

/* Written in the constructor, before any other thread; read by the wrappers. */
static exit_function *next_underscore_exit;
static exit_function *next_c99_exit;
static int (*next_kill)(pid_t pid, int number);

void process_start(void)
{
    *(void **)&next_underscore_exit = resolve_behind("_exit");
    *(void **)&next_c99_exit = resolve_behind("_Exit");
    *(void **)&next_kill = resolve_behind("kill");
}

static _Atomic int outlived; /* signal that was to end the process, and has not; any thread */

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

/* The signal that is sent ends this process: it asks for no core, nobody handles it and nothing holds it back. The first process of a
 * container does not end by its own. */
static bool is_last(pid_t pid, int number)
{
    struct sigaction action;
    sigset_t blocked;
    return (number == SIGINT || number == SIGTERM || number == SIGHUP) && pid != 1 &&
           cprof_owner_pid() == pid && pid == (pid_t)syscall(SYS_getpid) &&
           sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
           action.sa_handler == SIG_DFL && pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 &&
           !sigismember(&blocked, number);
}

/* Exported without a version, as exports.map explains. */
__asm__(".symver process_leave_posix, _exit@@");
__asm__(".symver process_leave_c99, _Exit@@");
__asm__(".symver process_kill, kill@@");

EXPORT _Noreturn void process_leave_posix(int status);
EXPORT _Noreturn void process_leave_c99(int status);
EXPORT int process_kill(pid_t pid, int number);

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

EXPORT int process_kill(pid_t pid, int number)
{
    int saved = errno;
    bool last = is_last(pid, number);
    if (last)
        finish_traces();
    errno = saved;
    int result = next_kill ? next_kill(pid, number) : (int)syscall(SYS_kill, pid, number);
    if (last)
        atomic_store(&outlived, number);
    return result;
}

/* Another thread was in a sigwait() for it, which no thread can see of another. */
void process_say_outlived(void)
{
    int number = atomic_exchange(&outlived, 0);
    if (number)
        log_warn("the program sent itself signal %d, which did not end it: the traces were "
                 "finished then, and nothing is recorded since",
                 number);
}
