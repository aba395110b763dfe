/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers of the CUDA runtime and driver, one per row and version node of hooks.def. They run
 * on application threads and always forward to the real function.
 *
 * .symver exports each as symbol@node. A caller linked to libcudart.so.12 gets the wrapper that
 * forwards to 12, even if 13 is in the process as well. Callers without a version and dlsym() get
 * symbol@@CPROF_1 (see exports.map).
 *
 * The slow half is a separate function, reached by a jump: the fast half leaves all arguments in
 * place and needs no stack.
 */
#include "preload/hooks/hooks.h"

#include <string.h>

#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY */

#define EXPORT __attribute__((visibility("default")))

/* Size of an allocation; 0: unknown. In copies and fills, the second argument is an address or a
 * pitch. */
static uint64_t is_bytes_wanted(const char *symbol, uint64_t size)
{
    return strstr(symbol, "Memcpy") || strstr(symbol, "Memset") ? 0 : size;
}

#define HOOK(node, symbol, shown, ret, missing, category, ...)                                     \
    static __attribute__((noinline)) ret slow_##node##_##symbol HOOK_PARAMS(__VA_ARGS__)           \
    {                                                                                              \
        struct hook_call call;                                                                     \
        hook_begin(&call, HOOK_##node##_##symbol, __builtin_return_address(0));                    \
        ret(*real) HOOK_PARAMS(__VA_ARGS__) = call.real;                                           \
        if (!real)                                                                                 \
            return missing;                                                                        \
        ret result = real HOOK_ARGS(__VA_ARGS__);                                                  \
        if (__builtin_expect(result == OUT_OF_MEMORY, 0))                                          \
            hook_out_of_memory(&call, is_bytes_wanted(#symbol, HOOK_SIZE(__VA_ARGS__)));           \
        hook_end(&call, result == 0);                                                              \
        return result;                                                                             \
    }                                                                                              \
    __asm__(".symver hook_" #node "_" #symbol ", " #symbol HOOK_SUFFIX_##node);                    \
    EXPORT ret hook_##node##_##symbol HOOK_PARAMS(__VA_ARGS__);                                    \
    EXPORT ret hook_##node##_##symbol HOOK_PARAMS(__VA_ARGS__)                                     \
    {                                                                                              \
        struct hook_slot *slot = &hook_slots[HOOK_##node##_##symbol];                              \
        ret(*go) HOOK_PARAMS(__VA_ARGS__) =                                                        \
            atomic_load_explicit(&slot->fast, memory_order_relaxed);                               \
        if (__builtin_expect(!go || gate_open(GATE_CALLS), 0))                                     \
            go = slow_##node##_##symbol;                                                           \
        return go HOOK_ARGS(__VA_ARGS__);                                                          \
    }
#include "preload/hooks/hooks.def"
