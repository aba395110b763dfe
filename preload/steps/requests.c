/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of requests while the program's own schedule runs, and the call of that schedule. */
#include "preload/steps/requests.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/core/core.h"
#include "preload/steps/edge_lock.h"
#include "preload/steps/steps_say.h"

#define WAITING 64u /* edges that can queue while the program's schedule runs */

/* The edge's lock guards the following. */
/* a thread is handling requests, perhaps without the lock; others only queue theirs */
static bool deciding;
static uint64_t decision; /* number of the current or last call of the program's schedule */
static pid_t decider;     /* thread that runs the program's schedule */
/* marks the decider has made since; it adds them without the lock */
static _Atomic unsigned ignored_marks;
static struct request waiting[WAITING + 1]; /* the last place is for the decider */
static unsigned n_waiting;

static __thread bool in_handler;
/* The frame that called the program's schedule, NULL outside that call. */
static __thread const char *schedule_frame;

static enum action valid_action(int answer)
{
    if (answer >= ACTION_SKIP && answer <= ACTION_ACTIVE_AND_SAVE)
        return (enum action)answer;
    steps_say_no_action(answer);
    return ACTION_SKIP;
}

/* The program's schedule was left without a return; the next request goes on without its answer. */
static void abandon(void)
{
    deciding = false;
    decision++;
    steps_say_no_answer();
}

/* Whether the thread that runs the program's schedule has exited. Under the lock. */
static bool decider_is_gone(void)
{
    int saved = errno;
    bool gone =
        deciding && syscall(SYS_tgkill, syscall(SYS_getpid), decider, 0) != 0 && errno == ESRCH;
    errno = saved;
    return gone;
}

/* Whether this thread's marks do not count: it runs a trace handler or the program's schedule. A
 * longjmp or an exception leaves the schedule without a return; then the stack pointer is above
 * schedule_frame (stacks grow down). A call from deeper in the stack looks like the schedule's.
 * Marks therefore count again after WAITING of them. */
static bool is_ignored(void)
{
    if (in_handler)
        return true;
    if (!schedule_frame)
        return false;
    if ((const char *)__builtin_frame_address(0) < schedule_frame && ++ignored_marks <= WAITING)
        return true;
    schedule_frame = NULL;
    edge_lock();
    if (deciding && decider == (pid_t)syscall(SYS_gettid))
        abandon();
    edge_unlock();
    return false;
}

__attribute__((noinline)) bool requests_ask(steps_chooser *choose, void *arg,
                                            const struct train_time *time, int64_t position,
                                            enum action *answer)
{
    uint64_t mine = decision;
    decider = (pid_t)syscall(SYS_gettid);
    ignored_marks = 0;
    edge_unlock();
    schedule_frame = __builtin_frame_address(0);
    int given = choose(time, position, arg);
    schedule_frame = NULL;
    if (atomic_load(&cprof_life) == LIFE_OVER)
        return false;
    edge_lock();
    *answer = valid_action(given);
    if (decision == mine)
        return true;
    edge_unlock();
    return false;
}

bool requests_in_cloned_child(void)
{
    int owner = cprof_owner_pid();
    return owner && owner != (int)syscall(SYS_getpid);
}

/* Handles queued requests, oldest first. Called with the lock, returns without it. */
static void serve_waiting(bool (*handle)(const struct request *r))
{
    deciding = true;
    decision++;
    while (n_waiting > 0) {
        struct request r = waiting[0];
        n_waiting--;
        for (unsigned i = 0; i < n_waiting; i++)
            waiting[i] = waiting[i + 1];
        if (!handle(&r))
            return;
    }
    deciding = false;
    edge_unlock();
}

bool requests_admit(const struct request *given)
{
    if (atomic_load(&cprof_life) == LIFE_OVER || requests_in_cloned_child())
        return false; /* in a forked child, a thread that does not exist may hold the lock */
    if (edge_lock_is_mine()) {
        steps_say_in_handler();
        return false;
    }
    /* the cprof thread runs handlers and requests windows */
    return given->demand || !is_ignored();
}

void requests_serve(const struct request *given, bool (*handle)(const struct request *r))
{
    edge_lock();
    if (decider_is_gone())
        abandon();
    if (n_waiting < WAITING || !deciding)
        waiting[n_waiting++] = *given;
    else
        steps_say_too_many(WAITING);
    if (deciding)
        edge_unlock();
    else
        serve_waiting(handle);
}

void steps_ignore_thread(void)
{
    in_handler = true;
}
