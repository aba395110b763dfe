/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all interposed calls: an id, a slot for the real function, and the work around the
 * call. Expanded from hooks.def. Application threads.
 *
 * While nothing is recorded, a wrapper is a load, a test and a jump:
 *
 *     real = slot.fast;                                         <- published by hook_begin()
 *     if (real && !gate_open(GATE_CALLS)) return real(args);
 *     hook_begin(); result = call.real(args); hook_end();
 */
#pragma once

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

/* The libraries of hooks.def. Each cudart has a node, because two can be in one process and need
 * separate wrappers and real functions. ANY is for callers that name no version. */
enum hook_node {
    HOOK_NODE_V11,
    HOOK_NODE_V12,
    HOOK_NODE_V13,
    HOOK_NODE_ANY,
    HOOK_NODE_DRIVER,
    HOOK_NODE_COUNT
};

/* The version that .symver adds to the exported name; exports.map lists the nodes. */
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

/* Where a wrapper forwards to. Any application thread reads and writes; all write the same
 * values. */
struct hook_slot {
    _Atomic(void *) fast;    /* `real`, once the wrapper only needs to forward; relaxed */
    _Atomic(void *) real;    /* NULL until found; relaxed */
    _Atomic uint64_t missed; /* 1 + resolve_generation() of the last failed lookup; relaxed */
    /* the name's number in spans; 0 until numbered_once() */
    _Atomic uint32_t name;
};
extern struct hook_slot hook_slots[HOOK_COUNT] __attribute__((visibility("hidden")));

/* A call on the slow path, on the wrapper's stack. */
struct hook_call {
    void *real;             /* the real function; NULL: not found */
    struct thread_log *log; /* log with the call's open span, or NULL */
};

/* Before a call on the slow path: finds the real function, wakes cprof, and opens a span if spans
 * are recorded. caller: the wrapper's return address. Keeps errno. Any thread. */
void hook_begin(struct hook_call *call, enum hook_id id, const void *caller);

/* After the real call: closes the span and notes the first call that succeeded. Keeps errno. Same
 * thread as hook_begin(). */
void hook_end(struct hook_call *call, bool succeeded);

/* Records that the real call found no memory for `bytes` (0: unknown). Before hook_end(). Keeps
 * errno. */
void hook_out_of_memory(const struct hook_call *call, uint64_t bytes);

/* The name in traces, such as "cudaMemcpyAsync": *length bytes without a NUL. Any thread. */
const char *hook_shown(enum hook_id id, uint32_t *length);

/* The second argument if it is a size_t, as in all allocating calls that take one size; else 0. */
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

/* The room's other headers. */
#include "preload/hooks/cuda_alive.h"
#include "preload/hooks/fork.h"
#include "preload/hooks/last_thread.h"
#include "preload/hooks/process.h"
#include "preload/hooks/thread_count.h"
