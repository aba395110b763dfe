/* SPDX-License-Identifier: Apache-2.0 */
/* The futex on which the cprof thread sleeps: a count of wake-ups. */
#include "writer/base/wake.h"

#include <stdatomic.h>

#include "writer/os/os.h"

static _Atomic uint32_t wakes; /* futex: any thread adds, release; the cprof thread reads */

void wake_thread(void)
{
    atomic_fetch_add_explicit(&wakes, 1, memory_order_release);
    futex_wake(&wakes);
}

uint32_t wake_word(void)
{
    return atomic_load_explicit(&wakes, memory_order_acquire);
}

void wake_wait(uint32_t word, int64_t ms)
{
    futex_wait(&wakes, word, ms);
}
