/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of step edges, on a futex. Application threads and the cprof thread. */
#include "preload/steps/edge_lock.h"

#include <stdatomic.h>

#include "writer/writer.h"

#define EXIT_WAIT_MS 50 /* much longer than an edge takes */

static _Atomic uint32_t edge_futex;    /* taken with futex_lock() */
static struct held_back holder_before; /* signals and cancellation as the lock's holder had them */

/* Also set while the thread waits for the lock: a signal handler on this thread must not wait
 * then. */
static __thread volatile bool has_lock;

void edge_lock(void)
{
    struct held_back before = hold_back();
    has_lock = true;
    atomic_signal_fence(memory_order_seq_cst);
    futex_lock(&edge_futex, -1);
    holder_before = before;
}

bool edge_lock_for_exit(void)
{
    if (has_lock)
        return false;
    struct held_back before = hold_back();
    has_lock = true;
    if (!futex_lock(&edge_futex, EXIT_WAIT_MS)) {
        has_lock = false;
        hold_back_end(&before);
        return false;
    }
    holder_before = before;
    return true;
}

void edge_unlock(void)
{
    struct held_back before = holder_before;
    futex_unlock(&edge_futex);
    atomic_signal_fence(memory_order_seq_cst);
    has_lock = false;
    hold_back_end(&before);
}

bool edge_lock_is_mine(void)
{
    return has_lock;
}
