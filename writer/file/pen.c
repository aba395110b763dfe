/* SPDX-License-Identifier: Apache-2.0 */
/* Decides who may write trace files: the cprof thread, or no thread once the exiting thread has
 * stopped waiting. */
#include "writer/file/pen.h"

#include <stdatomic.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/os/os.h"

#define WRITE_MOST_MS 500 /* for a write that is going on at the deadline */

/* futex. The cprof thread takes it for each write, the exiting thread keeps it. */
static _Atomic uint32_t pen;
enum { PEN_FREE, PEN_WRITES, PEN_KEPT };
static _Atomic bool wrote; /* any write was done */

void pen_start(void)
{
    atomic_store(&wrote, false); /* a forked child has the parent's value */
}

static bool try_pen(uint32_t user)
{
    uint32_t expected = PEN_FREE;
    return atomic_compare_exchange_strong(&pen, &expected, user);
}

void pen_take(void)
{
    while (!try_pen(PEN_WRITES))
        futex_wait(&pen, PEN_KEPT, -1);
}

void pen_give(bool done)
{
    if (done)
        atomic_store(&wrote, true);
    atomic_store(&pen, PEN_FREE);
    if (run_state_now() == WRITER_STOPPING)
        futex_wake(&pen);
}

bool pen_keep(void)
{
    uint64_t end = clock_monotonic_ns() + WRITE_MOST_MS * UINT64_C(1000000);
    while (!try_pen(PEN_KEPT)) {
        uint64_t now = clock_monotonic_ns();
        if (now >= end)
            return false;
        futex_wait(&pen, PEN_WRITES, (int64_t)((end - now) / 1000000) + 1);
    }
    return true;
}

bool pen_has_written(void)
{
    return atomic_load(&wrote);
}
