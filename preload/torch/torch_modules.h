/* SPDX-License-Identifier: Apache-2.0 */
/* CPROF_WITH_MODULES: records in which nn.Module each operator runs. Eager modules come from
 * torch's global module hooks, which are installed only while cprof records. TorchScript modules
 * come from the TorchScript interpreter. A backward operator gets the module of the forward
 * operator that made its node. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/core/core.h"
#include "writer/writer.h"

/* Whether modules are recorded. Set once at wake-up; any thread reads. */
extern bool torch_modules_wanted;

/* Turns module recording on. Once, at wake-up, before the first torch_modules_switch(). */
void torch_modules_start(void);

/* Requests that the hooks be installed or removed; torch_modules_settle() starts the change.
 * Stepping thread, at its edge. */
void torch_modules_switch(bool on);

/* Columns of parts.def. */
void torch_modules_edge_before(const struct edge_change *change);
void torch_modules_edge_after(const struct edge_change *change);

/* Schedules the last request's change in Python's main thread. Call it without cprof's locks: it
 * may wait for the GIL, whose holder may wait for such a lock. Stepping thread, after its edge. */
void torch_modules_settle(void);

/* Column of parts.def: reports once that operators run while Python's main thread, in which alone
 * the hooks can be installed, runs no Python code. cprof thread. */
int torch_modules_poll(bool stopping);

/* How many times the hooks were removed. Written with the GIL held; any thread reads. */
extern _Atomic uint32_t torch_modules_times;

/* Closes the modules that were open on this thread when the hooks were removed. The log's
 * thread. */
void torch_modules_forget(struct thread_log *log);

/* Calls torch_modules_forget() if the hooks were removed since the last call. Before a span opens
 * that may run in a module. The log's thread. */
static inline void torch_modules_enter(struct thread_log *log)
{
    uint32_t times = atomic_load_explicit(&torch_modules_times, memory_order_relaxed);
    if (__builtin_expect(log->modules_times != times, 0))
        torch_modules_forget(log);
}

/* Gives a new operator's span the module that it runs in. sequence, forward_thread: as in struct
 * record; thread: torch's number of this thread; engine_range: the engine's range around a
 * backward node, or NULL. The operator's thread, in its start callback; allocates only inside
 * TorchScript. */
void torch_modules_operator(struct thread_log *log, struct open_span *span,
                            struct open_span *engine_range, int64_t sequence,
                            uint64_t forward_thread, uint64_t thread);
