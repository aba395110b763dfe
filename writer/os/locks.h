/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on threads of the program: protects the holder, and bounds the waits. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

/* Disables cancellation: cprof's work on a thread of the program must not end half-way in a call
 * that opens or writes a file. Returns the state for cancel_back(). */
static inline int cancel_off(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void cancel_back(int before)
{
    pthread_setcancelstate(before, NULL);
}

/* The state that hold_back_end() restores. */
struct held_back {
    sigset_t signals;
    int cancel;
};

/* Blocks signals and cancellation while a lock is held: a handler that leaves by siglongjmp() or
 * pthread_exit() would never release it. Signals of processor faults stay enabled. Two system
 * calls, with hold_back_end(). */
static inline struct held_back hold_back(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    struct held_back before;
    sigset_t all;
    sigfillset(&all);
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, &before.signals);
    before.cancel = cancel_off();
    return before;
}

static inline void hold_back_end(const struct held_back *before)
{
    cancel_back(before->cancel);
    pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
}

/* gcc 12's ThreadSanitizer does not know pthread_mutex_clocklock() and would report the unlock. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LOCKS_CLOCK CLOCK_REALTIME
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(LOCKS_CLOCK)
#undef LOCKS_CLOCK
#define LOCKS_CLOCK                   CLOCK_REALTIME
#define LOCKS_WAIT(mutex, clock, end) pthread_mutex_timedlock(mutex, end) /* lint: allow */
#elif __GLIBC_PREREQ(2, 30)
#define LOCKS_CLOCK                   CLOCK_MONOTONIC /* cannot be set */
#define LOCKS_WAIT(mutex, clock, end) pthread_mutex_clocklock(mutex, clock, end)
#else /* built for an older glibc, and run with a newer one */
#pragma weak pthread_mutex_clocklock
#define LOCKS_CLOCK (pthread_mutex_clocklock ? CLOCK_MONOTONIC : CLOCK_REALTIME)
#define LOCKS_WAIT(mutex, clock, end)                                                              \
    (pthread_mutex_clocklock ? pthread_mutex_clocklock(mutex, clock, end)                          \
                             : pthread_mutex_timedlock(mutex, end)) /* lint: allow */
#endif

/* Takes the mutex within `ms` milliseconds. False: timeout. Any thread. */
static inline bool lock_within(pthread_mutex_t *mutex, long ms)
{
    struct timespec end;
    if (pthread_mutex_trylock(mutex) == 0)
        return true;
    clock_gettime(LOCKS_CLOCK, &end);
    end.tv_nsec += ms % 1000 * 1000000;
    end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return LOCKS_WAIT(mutex, LOCKS_CLOCK, &end) == 0;
}
