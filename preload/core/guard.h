/* SPDX-License-Identifier: Apache-2.0 */
/* The recursion guard: a byte per thread that is set while the thread runs cprof's code. Hooked
 * calls made there are forwarded, not recorded. Application threads, also in signal handlers, which
 * see the byte of the interrupted thread. */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

/* Nonzero while this thread is inside cprof. initial-exec: one load, no allocation at first use. */
extern __thread volatile uint8_t guard_inside
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Enters cprof. False: the thread is inside already; only forward the call. Pair true with
 * guard_leave(). */
static inline bool guard_enter(void)
{
    if (guard_inside)
        return false;
    guard_inside = 1;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

/* Leaves cprof, after a guard_enter() that returned true on this thread. */
static inline void guard_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    guard_inside = 0;
}

/* Around a call from cprof into the program's libraries. What the library marks meanwhile is not
 * the program's (NCCL 2.28 marks each function for NVTX), so it is refused and not counted as lost.
 * guard_asked() takes what guard_ask() returned. */
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

/* Counts an event that guard_enter() refused as lost. */
void guard_refused(void);

/* guard_enter() for events that only the program causes: marks and operators. False means that a
 * signal handler interrupted cprof, or has left it by siglongjmp() for good. The event is counted
 * as lost. */
static inline bool guard_enter_event(void)
{
    if (__builtin_expect(guard_enter(), 1))
        return true;
    guard_refused();
    return false;
}
