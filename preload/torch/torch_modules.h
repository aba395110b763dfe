/* SPDX-License-Identifier: Apache-2.0 */
/* CPROF_WITH_MODULES: in which nn.Module each operator runs. Eager modules are seen by torch's
 * global module hooks, which stand in torch while something is recorded and at no other time;
 * TorchScript's by what its interpreter says itself. Backward operators belong to the module of the
 * forward operator that made their node. */
#ifndef PRELOAD_TORCH_TORCH_MODULES_H
#define PRELOAD_TORCH_TORCH_MODULES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/core/core.h"
#include "writer/writer.h"

/* True when modules are to be recorded. Set once at wake-up; any thread. */
extern bool torch_modules_wanted;

/* Modules are to be recorded. Once, at wake-up, before the first torch_modules_switch(). */
void torch_modules_start(void);

/* From now on modules are to be seen, or not any more. Stepping thread, at its edge. */
void torch_modules_switch(bool on);

/* Columns of parts.def. */
void torch_modules_edge_before(const struct edge_change *change);
void torch_modules_edge_after(const struct edge_change *change);

/* Asks for what the last switch changes in Python: the main thread changes it a moment later. Under
 * no lock of ours, because it may wait for the interpreter's, whose holder may wait for ours.
 * Stepping thread, behind its edge. */
void torch_modules_settle(void);

/* How often the hooks have been taken out. Written by Python's main thread; any thread reads. */
extern _Atomic uint32_t torch_modules_times;

/* Forgets the modules that were open on this thread when the hooks went. The thread itself. */
void torch_modules_forget(struct thread_log *log);

/* The same if need be: before a span opens that may be in a module. */
static inline void torch_modules_enter(struct thread_log *log)
{
    uint32_t times = atomic_load_explicit(&torch_modules_times, memory_order_relaxed);
    if (__builtin_expect(log->modules_times != times, 0))
        torch_modules_forget(log);
}

/* An operator begins on this thread: gives its span the module that it runs in. sequence,
 * forward_thread: as in struct record; thread: torch's number of this one. engine_range: the
 * engine's range around a backward node, or NULL. The operator's thread, in its start callback;
 * allocates only inside TorchScript. */
void torch_modules_operator(struct thread_log *log, struct open_span *span,
                            struct open_span *engine_range, int64_t sequence,
                            uint64_t forward_thread, uint64_t thread);

#endif
