/* SPDX-License-Identifier: Apache-2.0 */
/* torch inside this process: found when its allocator is first used, listened to through
 * at::addGlobalCallback from C. Files: torch.c finds and registers, torch_ops.c turns callbacks
 * into spans, torch_memory.c allocations into records, torch_shapes.c inputs into shapes;
 * torch_groups.c and torch_comms.c read what is known of transfers. */
#ifndef PRELOAD_TORCH_TORCH_H
#define PRELOAD_TORCH_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/core/core.h"
#include "preload/settings/settings.h"

/* Finds torch and registers the callbacks: ranges for good, operators switched by
 * torch_operators(). Once, at wake-up, on the waking thread, and again by a later wake-up source if
 * torch was not there yet. Says one line when operators must stay off. */
void torch_start(const struct config *config);

/* torch's allocator is being used: wakes cprof, or registers the callbacks if cprof was woken
 * before torch was there. The allocator's hook calls it until it answers true. */
bool torch_here(void);

/* Switches the operator callback. Takes the lock that fork waits for. Stepping thread, at its edge,
 * and the thread on which torch is found. */
void torch_operators(bool on);

/* Columns of parts.def. */
void torch_edge_before(const struct edge_change *change);
void torch_edge_after(const struct edge_change *change);

/* From now on no callback is switched any more (exit, forked child). */
void torch_stop(void);

/* True after torch_stop(). Any thread. */
bool torch_stopped(void);

/* Turns operators off for good with one line that says what is missing ("operators") and why. Any
 * thread. */
void torch_operators_broken(const char *what, const char *why);

/* ---- torch_ops.c ---- */

/* The start and end callbacks for operators and for ranges, `context` being where the start's
 * std::unique_ptr is put (torch.c: how each processor passes it). Any application thread, inside
 * torch. */
void **torch_operator_start(void **context, const void *function);
void torch_operator_end(const void *function, void *context);   /* as above */
void **torch_range_start(void **context, const void *function); /* as above */
void torch_range_end(const void *function, void *context);      /* as above */

/* ---- torch_shapes.c ---- */

/* Copies the shapes and types of the function's inputs (record.h, DATA_SHAPES) to out, at most
 * `size` bytes; returns the bytes used. Reads by layout, holds no reference, allocates nothing. In
 * the start callback only. */
uint32_t torch_shapes(const void *function, uint8_t *out, uint32_t size);

/* Names of the dtypes by number, and how many. */
const char *const *torch_dtype_names(unsigned *count);

/* ---- torch_memory.c ---- */

/* Forgets the allocations seen so far: a new window begins, and what was freed unseen since the
 * last one must not be taken for alive. As in torch.profiler, a release is reported when the
 * allocation was. Stepping thread, at the edge. */
void torch_memory_restart(void);

/* In the child's atfork handler: its first allocation calls torch_here() again. */
void torch_memory_in_child(void);

/* What else the room offers. */
#include "preload/torch/torch_glue.h"
#include "preload/torch/torch_lock.h"
#include "preload/torch/torch_modules.h"

#endif
