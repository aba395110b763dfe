/* SPDX-License-Identifier: Apache-2.0 */
/* lint: ends the process on behalf of the program */
/* Wrappers of _exit, _Exit, abort and the calls that send signals. They run on any application
 * thread, in signal handlers, and in vfork children, which share their parent's memory. So they
 * first check which process they are in. */
#include "preload/hooks/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/core/core.h"
#include "preload/link/link.h"
#include "writer/writer.h"

#define EXPORT __attribute__((visibility("default")))

typedef void exit_function(int status);

/* The next definition of each. Written in the constructor, before other threads exist. */
static exit_function *next_underscore_exit;
static exit_function *next_c99_exit;
static void (*next_abort)(void);
static int (*next_kill)(pid_t pid, int number);
static int (*next_killpg)(pid_t group, int number);
static int (*next_raise)(int number);
static int (*next_tgkill)(pid_t process, pid_t thread, int number);
static int (*next_pthread_kill)(pthread_t thread, int number);
static int (*next_sigqueue)(pid_t pid, int number, const union sigval value);

void process_start(void)
{
    *(void **)&next_underscore_exit = resolve_behind("_exit");
    *(void **)&next_c99_exit = resolve_behind("_Exit");
    *(void **)&next_abort = resolve_behind("abort");
    *(void **)&next_kill = resolve_behind("kill");
    *(void **)&next_killpg = resolve_behind("killpg");
    *(void **)&next_raise = resolve_behind("raise");
    *(void **)&next_tgkill = resolve_behind("tgkill");
    *(void **)&next_pthread_kill = resolve_behind("pthread_kill");
    *(void **)&next_sigqueue = resolve_behind("sigqueue");
}

static _Atomic int outlived; /* signal that should have ended the process and has not; any thread */

/* A signal handler may have interrupted cprof itself. cprof_at_exit() therefore limits its waits
 * for locks, and ignores a record that is not committed. */
static void finish_traces(void)
{
    int owner = cprof_owner_pid();
    if (owner == 0 || owner != (int)syscall(SYS_getpid))
        return; /* not awake, or a forked or vfork child */
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

static pid_t own_pid(void)
{
    return (pid_t)syscall(SYS_getpid);
}

static pid_t own_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* Whether the signal's default action ends the process. Excludes SIGKILL: a process that sends
 * itself SIGKILL wants no further work. */
static bool is_deadly(int number)
{
    static const int others[] = {SIGKILL, SIGCHLD, SIGCONT, SIGURG, SIGWINCH,
                                 SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        if (number == others[i])
            return false;
    return number > 0;
}

static bool has_no_handler(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
           action.sa_handler == SIG_DFL;
}

/* Whether the thread blocks the signal; true if unknown. */
static bool blocks(pid_t thread, int number)
{
    char path[64], text[4096];
    unsigned long long mask;
    if (thread == own_tid()) {
        sigset_t blocked;
        return pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0 || sigismember(&blocked, number);
    }
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
    const char *line = read_file(path, text, sizeof text) ? strstr(text, "\nSigBlk:") : NULL;
    return !line || sscanf(line, "\nSigBlk: %llx", &mask) != 1 || mask >> (number - 1) & 1;
}

/* Finishes the traces if the signal, sent to this thread, ends the process: default action and not
 * blocked. Process 1 of a container does not end by its own signals. Keeps errno. */
static bool finish_if_last(pid_t thread, int number)
{
    int saved = errno;
    pid_t owner = (pid_t)cprof_owner_pid();
    bool last = owner > 1 && owner == own_pid() && is_deadly(number) && has_no_handler(number) &&
                !blocks(thread, number);
    if (last) {
        writer_ends_by("signal", number);
        finish_traces();
    }
    errno = saved;
    return last;
}

/* The wrapper's result. A process that still runs after a deadly signal is noted. */
static int note_outlived(bool last, int number, int result)
{
    if (last)
        atomic_store(&outlived, number);
    return result;
}

/* The kernel's thread id, from the clock of its CPU time (CPUCLOCK_PERTHREAD); 0: unknown. */
static pid_t tid_of(pthread_t thread)
{
    clockid_t clock;
    if (pthread_equal(thread, pthread_self()))
        return own_tid();
    return pthread_getcpuclockid(thread, &clock) == 0 ? (pid_t) ~(clock >> 3) : 0;
}

/* Unversioned; exports.map explains why. */
__asm__(".symver process_leave_posix, _exit@@");
__asm__(".symver process_leave_c99, _Exit@@");
__asm__(".symver process_abort, abort@@");
__asm__(".symver process_kill, kill@@");
__asm__(".symver process_killpg, killpg@@");
__asm__(".symver process_raise, raise@@");
__asm__(".symver process_tgkill, tgkill@@");
__asm__(".symver process_pthread_kill, pthread_kill@@");
__asm__(".symver process_sigqueue, sigqueue@@");

EXPORT _Noreturn void process_leave_posix(int status);
EXPORT _Noreturn void process_leave_c99(int status);
EXPORT _Noreturn void process_abort(void);
EXPORT int process_kill(pid_t pid, int number);
EXPORT int process_killpg(pid_t group, int number);
EXPORT int process_raise(int number);
EXPORT int process_tgkill(pid_t process, pid_t thread, int number);
EXPORT int process_pthread_kill(pthread_t thread, int number);
EXPORT int process_sigqueue(pid_t pid, int number, const union sigval value);

static void leave_with(int status)
{
    if (status)
        writer_ends_by("exit code", status & 0xff);
    finish_traces();
}

EXPORT void process_leave_posix(int status)
{
    leave_with(status);
    leave(next_underscore_exit, status);
}

EXPORT void process_leave_c99(int status)
{
    leave_with(status);
    leave(next_c99_exit, status);
}

/* A handler of SIGABRT may leave by siglongjmp(). If it raises the signal again, that call finishes
 * the traces. */
EXPORT void process_abort(void)
{
    struct sigaction action;
    bool handled = sigaction(SIGABRT, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
                   action.sa_handler != SIG_IGN;
    if (!handled) {
        writer_ends_by("SIGABRT", -1);
        finish_traces();
    }
    if (next_abort)
        next_abort();
    for (;;)
        syscall(SYS_tgkill, own_pid(), own_tid(), SIGKILL);
}

/* Whether this process is in the signalled group; 0 is the caller's. */
static bool is_in(pid_t group)
{
    return group == 0 || group == getpgrp();
}

EXPORT int process_kill(pid_t pid, int number)
{
    bool own = pid > 0 ? pid == (pid_t)cprof_owner_pid() : pid != -1 && is_in(-pid);
    bool last = own && finish_if_last(own_tid(), number);
    return note_outlived(last, number,
                         next_kill ? next_kill(pid, number) : (int)syscall(SYS_kill, pid, number));
}

EXPORT int process_killpg(pid_t group, int number)
{
    bool last = is_in(group) && finish_if_last(own_tid(), number);
    return note_outlived(last, number,
                         next_killpg ? next_killpg(group, number)
                                     : (int)syscall(SYS_kill, -group, number));
}

EXPORT int process_raise(int number)
{
    bool last = finish_if_last(own_tid(), number);
    return note_outlived(last, number,
                         next_raise ? next_raise(number)
                                    : (int)syscall(SYS_tgkill, own_pid(), own_tid(), number));
}

EXPORT int process_tgkill(pid_t process, pid_t thread, int number)
{
    bool last = process == (pid_t)cprof_owner_pid() && finish_if_last(thread, number);
    return note_outlived(last, number,
                         next_tgkill ? next_tgkill(process, thread, number)
                                     : (int)syscall(SYS_tgkill, process, thread, number));
}

EXPORT int process_pthread_kill(pthread_t thread, int number)
{
    bool awake = cprof_owner_pid() != 0 && is_deadly(number);
    bool last = awake && finish_if_last(tid_of(thread), number);
    return note_outlived(last, number,
                         next_pthread_kill ? next_pthread_kill(thread, number) : ENOSYS);
}

EXPORT int process_sigqueue(pid_t pid, int number, const union sigval value)
{
    bool last = pid == (pid_t)cprof_owner_pid() && finish_if_last(own_tid(), number);
    if (next_sigqueue)
        return note_outlived(last, number, next_sigqueue(pid, number, value));
    errno = ENOSYS;
    return -1;
}

/* This happens when another thread is in sigwait() for the signal, which cannot be detected. */
void process_say_outlived(void)
{
    int number = atomic_exchange(&outlived, 0);
    if (number)
        log_warn("the program sent itself signal %d, which did not end it: cprof finished the "
                 "traces then, and has recorded nothing since",
                 number);
}
