/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recursion guard: one byte per thread that says "this thread is inside cprof". Code of cprof
 * that runs below a hooked call enters it, so that a hooked call made from there is only forwarded.
 * Application threads; safe in signal handlers, which see the byte of the thread they interrupt.
 */
#ifndef PRELOAD_CORE_GUARD_H
#define PRELOAD_CORE_GUARD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

/* Not 0 while this thread is inside cprof. initial-exec: one load, and no allocation at first
 * touch. */
extern __thread volatile uint8_t guard_inside
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Enters cprof. false: this thread is inside already, so do nothing of ours and forward the call.
 * Pair true with guard_leave(). */
static inline bool guard_enter(void)
{
    if (guard_inside)
        return false;
    guard_inside = 1;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

/* Leaves cprof; only after a guard_enter() that returned true, on the same thread. */
static inline void guard_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    guard_inside = 0;
}

/* Around a question that cprof asks a library of the program's. What the library marks meanwhile
 * (NCCL 2.28 marks each of its functions for NVTX) is not the program's: it is kept out, and not
 * counted as lost. Pair; the second takes what the first returned. */
#define GUARD_ASKS 2
static inline uint8_t guard_ask(void)
{
    uint8_t before = guard_inside;
    guard_inside = GUARD_ASKS;
    return before;
}

static inline void guard_asked(uint8_t before)
{
    guard_inside = before;
}

/* Counts an event that guard_enter() kept out of the thread's log. */
void guard_refused(void);

/* guard_enter() for what the program alone does, never cprof: marks and operators begin. Where it
 * is false a signal handler interrupted cprof, or one has left it by siglongjmp() and nobody comes
 * to guard_leave() any more: the event is counted as lost. */
static inline bool guard_enter_event(void)
{
    if (__builtin_expect(guard_enter(), 1))
        return true;
    guard_refused();
    return false;
}

#endif
