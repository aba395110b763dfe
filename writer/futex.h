/* SPDX-License-Identifier: Apache-2.0 */
/* The two futex calls, private to the process: no lock, no allocation. */
#ifndef WRITER_FUTEX_H
#define WRITER_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Wakes all that wait for the word. Any thread. */
static inline void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Waits until the word differs from `value` or is woken, at most `ms` milliseconds; below 0: for ever. Any thread. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ms < 0 ? NULL : &t, NULL, 0);
}

#endif
