/* SPDX-License-Identifier: Apache-2.0 */
/* Ring of the last periods in which CUPTI recorded calls. */
#include "cupti/recorded.h"

#include <stdatomic.h>

#include "writer/writer.h"

#define TIMES 16

/* Written by recorded_begin() and recorded_end(), read by any thread. */
static _Atomic uint64_t since = UINT64_MAX;
static struct {
    _Atomic uint64_t from, until; /* ticks; `until` is 0 while `from` changes */
} times[TIMES];
static _Atomic unsigned n_times;

void recorded_begin(void)
{
    unsigned n = atomic_load(&n_times), slot = n % TIMES;
    uint64_t now = clock_ticks();
    atomic_store(&times[slot].until, 0);
    atomic_store(&times[slot].from, now);
    atomic_store(&times[slot].until, UINT64_MAX);
    atomic_store(&n_times, n + 1);
    atomic_store(&since, now);
}

void recorded_end(void)
{
    unsigned n = atomic_load(&n_times);
    if (atomic_exchange(&since, UINT64_MAX) != UINT64_MAX && n)
        atomic_store(&times[(n - 1) % TIMES].until, clock_ticks());
}

uint64_t recorded_since(void)
{
    return atomic_load_explicit(&since, memory_order_relaxed);
}

bool recorded_at(uint64_t ticks)
{
    unsigned n = atomic_load(&n_times);
    for (unsigned i = 0; i < TIMES && i < n; i++)
        if (ticks < atomic_load(&times[i].until) && ticks >= atomic_load(&times[i].from))
            return true;
    return false;
}
