/* SPDX-License-Identifier: Apache-2.0 */
/* The torch in this process. cprof finds it when its allocator is first used, and records it
 * through at::addGlobalCallback, called from C. torch.c finds torch and registers; torch_ops.c
 * turns callbacks into spans, torch_memory.c allocations into records, torch_shapes.c inputs into
 * shapes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/core/core.h"
#include "preload/settings/settings.h"

/* Finds torch and registers the callbacks: ranges permanently, operators until torch_operators()
 * switches them. Does nothing while torch is not loaded, and after the first call that finds torch.
 * Logs one line when operators must stay off. Once at wake-up, on the waking thread; later through
 * torch_here(). */
void torch_start(const struct config *config);

/* Called when torch's allocator is used: wakes cprof, or registers the callbacks if torch was
 * loaded after cprof woke. True: need not be called again. Application threads. */
bool torch_here(void);

/* Switches the operator callback on or off. Takes the torch lock, for which forks wait. Stepping
 * thread, at its edge; also the thread that finds torch. */
void torch_operators(bool on);

/* Columns of parts.def. */
void torch_edge_before(const struct edge_change *change);
void torch_edge_after(const struct edge_change *change);

/* Stops all calls into torch for good, at exit and in a forked child. Any thread. */
void torch_stop(void);

/* True after torch_stop(). Any thread. */
bool torch_stopped(void);

/* Stops recording operators permanently, and logs one line. what: what is missing from traces
 * ("operators"); why: the reason. Any thread. */
void torch_operators_broken(const char *what, const char *why);

/* ---- torch_ops.c ---- */

/* torch's start and end callbacks for operators and for ranges. context: where the start callback
 * stores its std::unique_ptr (START_ENTRY in torch.c). Any application thread, inside torch. */
void **torch_operator_start(void **context, const void *function);
void torch_operator_end(const void *function, void *context);   /* as above */
void **torch_range_start(void **context, const void *function); /* as above */
void torch_range_end(const void *function, void *context);      /* as above */

/* torch_operator_start() for a caller that knows the name, which is terminated (torch_objects.c).
 * Same thread. */
void torch_operator_begin(const void *function, const char *name);

/* ---- torch_shapes.c ---- */

/* Encodes the shapes and types of the function's inputs into out (DATA_SHAPES in record_types.h),
 * and leaves out inputs that do not fit into `size` bytes. Returns the bytes used. Takes no
 * reference, allocates nothing. Only in the start callback. */
uint32_t torch_shapes(const void *function, uint8_t *out, uint32_t size);

/* Returns the dtypes' names, by c10::ScalarType; *count: how many. Static. Any thread. */
const char *const *torch_dtype_names(unsigned *count);

/* ---- torch_memory.c ---- */

/* Forgets the allocations seen so far. A window begins, and what was freed since the last one must
 * not count as alive. As in torch.profiler, a release is recorded only if its allocation was.
 * Stepping thread, at the edge. */
void torch_memory_restart(void);

/* Makes a forked child's first allocation call torch_here() again. In the child's atfork
 * handler. */
void torch_memory_in_child(void);

/* The room's other headers. */
#include "preload/torch/torch_glue.h"
#include "preload/torch/torch_lock.h"
#include "preload/torch/torch_modules.h"
