/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes that an application thread waits for. */
#include "writer/window/flush_now.h"
#include "writer/writer.h"

#include "writer/record/record.h"
#include "writer/os/os.h"
#include "writer/base/base.h"

static _Atomic uint32_t all_asked; /* any thread increments */
static _Atomic uint32_t all_done;  /* futex word; the cprof thread writes */

uint32_t flush_now_asked(void)
{
    return atomic_load(&all_asked);
}

uint32_t flush_now_done(void)
{
    return atomic_load_explicit(&all_done, memory_order_relaxed);
}

void flush_now_set_done(uint32_t asked)
{
    atomic_store(&all_done, asked);
    futex_wake(&all_done);
}

void writer_flush_now(unsigned most_ms)
{
    uint32_t asked = atomic_fetch_add(&all_asked, 1) + 1;
    if (run_state_now() != WRITER_RUNS)
        return;
    wake_thread();
    uint64_t end = clock_monotonic_ns() + most_ms * UINT64_C(1000000);
    for (;;) {
        uint32_t done = atomic_load(&all_done);
        uint64_t now = clock_monotonic_ns();
        if ((int32_t)(done - asked) >= 0 || now >= end)
            return;
        futex_wait(&all_done, done, (int64_t)((end - now) / 1000000) + 1);
    }
}
