/* SPDX-License-Identifier: Apache-2.0 */
/* The two futex calls, process-private, and a lock made of them. No allocation; errno stays. */
#pragma once

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "writer/os/monotonic.h"
#include "writer/os/raw_syscall.h"

/* Wakes all threads that wait on the word. Any thread. */
static inline void futex_wake(_Atomic uint32_t *word)
{
    raw_syscall(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

/* Waits until the word differs from `value` or is woken, at most `ms` milliseconds; below 0: for
 * ever. Any thread. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    raw_syscall(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, value, ms < 0 ? 0 : (long)&t, 0, 0);
}

enum { FUTEX_FREE, FUTEX_HELD, FUTEX_AWAITED }; /* values of a lock's word */

/* Takes the lock within `ms` milliseconds; below 0: waits for ever. False: timeout. A waiting
 * thread sleeps, so that a holder of lower priority gets the processor. Any thread. */
static inline bool futex_lock(_Atomic uint32_t *word, int64_t ms)
{
    uint32_t was = FUTEX_FREE;
    if (atomic_compare_exchange_strong(word, &was, FUTEX_HELD))
        return true;
    uint64_t begun = ms < 0 ? 0 : clock_monotonic_ns();
    int64_t left = ms;
    while ((was = atomic_exchange(word, FUTEX_AWAITED)) != FUTEX_FREE && (ms < 0 || left > 0)) {
        futex_wait(word, FUTEX_AWAITED, left);
        left = ms < 0 ? ms : ms - (int64_t)((clock_monotonic_ns() - begun) / 1000000);
    }
    return was == FUTEX_FREE;
}

/* Releases the lock. The thread that took it. */
static inline void futex_unlock(_Atomic uint32_t *word)
{
    if (atomic_exchange(word, FUTEX_FREE) == FUTEX_AWAITED)
        futex_wake(word);
}
