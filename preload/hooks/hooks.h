/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every interposed call shares: an id, a slot for the real function, and what happens around
 * the call. Expanded from hooks.def. Application threads.
 *
 * A wrapper is a load, a test and a jump while nothing is recorded:
 *
 *     real = slot.fast;
 *     if (real && !gate_open(GATE_CALLS)) return real(args);    <- published by hook_begin()
 *     hook_begin(); result = call.real(args); hook_end();
 */
#ifndef PRELOAD_HOOKS_HOOKS_H
#define PRELOAD_HOOKS_HOOKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/core/core.h"
#include "writer/writer.h"

/* By-value parameters of the CUDA runtime, laid out as dim3, cudaExtent and cudaPitchedPtr. */
struct cuda_dim3 {
    unsigned x, y, z;
};
struct cuda_extent {
    size_t width, height, depth;
};
struct cuda_pitched {
    void *pointer;
    size_t pitch, width, height;
};

/* The libraries that hooks.def knows: each cudart by its version node, since two can live in one
 * process and each then needs wrappers and real pointers of its own. ANY serves callers that name
 * no version. */
enum hook_node {
    HOOK_NODE_V11,
    HOOK_NODE_V12,
    HOOK_NODE_V13,
    HOOK_NODE_ANY,
    HOOK_NODE_DRIVER,
    HOOK_NODE_COUNT
};

/* What .symver appends to the exported name; the nodes stand in exports.map. */
#define HOOK_SUFFIX_V11    "@libcudart.so.11.0"
#define HOOK_SUFFIX_V12    "@libcudart.so.12"
#define HOOK_SUFFIX_V13    "@libcudart.so.13"
#define HOOK_SUFFIX_ANY    "@@CPROF_1"
#define HOOK_SUFFIX_DRIVER "@@CPROF_1"

enum hook_id {
#define HOOK(node, symbol, ...) HOOK_##node##_##symbol,
#include "preload/hooks/hooks.def"
    HOOK_COUNT
};

/* Where one wrapper forwards to. All fields: any application thread writes and reads; whoever comes
 * first writes, and all write the same. */
struct hook_slot {
    _Atomic(void *) fast;    /* real, once nothing but forwarding is left to do; relaxed */
    _Atomic(void *) real;    /* the real function, NULL until found; relaxed */
    _Atomic uint64_t missed; /* resolve_generation() of the last lookup in vain + 1; relaxed */
    /* as spans hold it, 0 until the first that is recorded; numbered_once() */
    _Atomic uint32_t name;
};
extern struct hook_slot hook_slots[HOOK_COUNT] __attribute__((visibility("hidden")));

/* One call that takes the slow path; lives on the wrapper's stack. */
struct hook_call {
    void *real;             /* the real function, NULL when there is none */
    struct thread_log *log; /* where the call's span is open, or NULL */
};

/*
 * Before a call that cannot just be forwarded: finds the real function, wakes cprof, opens a span
 * when spans are recorded. `caller` is the wrapper's return address. Keeps errno. Any thread.
 */
void hook_begin(struct hook_call *call, enum hook_id id, const void *caller);

/* After the real call: closes the span and notes the first call that `succeeded`. Keeps errno as
 * the real call left it. The same thread as hook_begin(). */
void hook_end(struct hook_call *call, bool succeeded);

/* Between the real call, which found no memory for `bytes` (0: not known), and hook_end(). Keeps
 * errno. */
void hook_out_of_memory(const struct hook_call *call, uint64_t bytes);

/* The exported name, "cudaMemcpyAsync_ptsz". Any thread. */
const char *hook_symbol(enum hook_id id);

/* The name that traces show, "cudaMemcpyAsync", into *length bytes, not terminated. Any thread. */
const char *hook_shown(enum hook_id id, uint32_t *length);

/* The second argument where it is a size, as in every allocating call that takes one number of
 * bytes; else 0. */
#define HOOK_IS_SIZE(x) __builtin_types_compatible_p(__typeof__(x), size_t)

#define HOOK_SIZE(...) HOOK_PICK(HOOK_SIZE_, HOOK_ARITY(__VA_ARGS__))
#define HOOK_SIZE_0    0
#define HOOK_SIZE_1    0
#define HOOK_SIZE_2    __builtin_choose_expr(HOOK_IS_SIZE(b), b, 0)
#define HOOK_SIZE_3    HOOK_SIZE_2
#define HOOK_SIZE_4    HOOK_SIZE_2
#define HOOK_SIZE_5    HOOK_SIZE_2
#define HOOK_SIZE_6    HOOK_SIZE_2
#define HOOK_SIZE_7    HOOK_SIZE_2
#define HOOK_SIZE_8    HOOK_SIZE_2
#define HOOK_SIZE_9    HOOK_SIZE_2
#define HOOK_SIZE_10   HOOK_SIZE_2
#define HOOK_SIZE_11   HOOK_SIZE_2

/* What else the room offers. */
#include "preload/hooks/cuda_alive.h"
#include "preload/hooks/fork.h"
#include "preload/hooks/last_thread.h"
#include "preload/hooks/process.h"
#include "preload/hooks/thread_count.h"

#endif
