/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers of CUPTI for its other clients. Each call is first reported to cupti/, so that cprof can
 * step aside before it takes effect. One wrapper per call and version node, as in wrap_cuda.c: two
 * libcupti can be in one process. cprof's own calls bypass the wrappers. Application threads. */
#include "preload/hooks/hooks.h"

#include <dlfcn.h>
#include <string.h>

#include "cupti/gpu_trace.h"
#include "preload/core/core.h"
#include "preload/link/link.h"

#define EXPORT            __attribute__((visibility("default")))
#define NOT_INITIALIZED   15 /* CUPTI_ERROR_NOT_INITIALIZED */
#define CUPTI_SUFFIX_C11  "@libcupti.so.11.8"
#define CUPTI_SUFFIX_C12  "@libcupti.so.12"
#define CUPTI_SUFFIX_C13  "@libcupti.so.13"
#define CUPTI_SUFFIX_CANY "@@CPROF_1"

enum cupti_node { NODE_C11, NODE_C12, NODE_C13, NODE_CANY };

static const struct resolve_library libraries[] = {
    [NODE_C11] = {"libcupti.so.11.8", {"libcupti.so.11.8"}, "libcupti"},
    [NODE_C12] = {"libcupti.so.12", {"libcupti.so.12"}, "libcupti"},
    [NODE_C13] = {"libcupti.so.13", {"libcupti.so.13"}, "libcupti"},
    [NODE_CANY] = {NULL, {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"}, "libcupti"},
};

/* Calls from within CUPTI are not another client's. */
static bool is_cupti(const void *caller)
{
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname)
        return false;
    const char *name = strrchr(info.dli_fname, '/');
    return strncmp(name ? name + 1 : info.dli_fname, "libcupti", 8) == 0;
}

static void tell_other(enum gpu_other what, int kind, const void *caller)
{
    if (atomic_load(&cprof_life) != LIFE_OVER && !is_cupti(caller) && guard_enter()) {
        gpu_other_client(what, kind);
        guard_leave();
    }
}

/* Returns the real function after reporting the call to cupti/. */
static void *before(_Atomic(void *) *slot, const char *symbol, enum cupti_node node,
                    enum gpu_other what, int kind, const void *caller)
{
    void *real = atomic_load_explicit(slot, memory_order_relaxed);
    if (!real) {
        real = resolve_next(symbol, &libraries[node], caller);
        atomic_store_explicit(slot, real, memory_order_relaxed);
    }
    if (real && what != GPU_OTHER_FLUSHED)
        tell_other(what, kind, caller);
    return real;
}

#define WRAPPER(node, symbol, what, kind, ...)                                                     \
    __asm__(".symver other_" #node "_" #symbol ", " #symbol CUPTI_SUFFIX_##node);                  \
    EXPORT int other_##node##_##symbol HOOK_PARAMS(__VA_ARGS__);                                   \
    EXPORT int other_##node##_##symbol HOOK_PARAMS(__VA_ARGS__)                                    \
    {                                                                                              \
        static _Atomic(void *) slot;                                                               \
        int(*real) HOOK_PARAMS(__VA_ARGS__) =                                                      \
            before(&slot, #symbol, NODE_##node, what, kind, __builtin_return_address(0));          \
        int result = real ? real HOOK_ARGS(__VA_ARGS__) : NOT_INITIALIZED;                         \
        if ((what) == GPU_OTHER_FLUSHED)                                                           \
            tell_other(what, kind, __builtin_return_address(0));                                   \
        return result;                                                                             \
    }

#define CUPTI(symbol, ...)                                                                         \
    WRAPPER(C11, symbol, __VA_ARGS__)                                                              \
    WRAPPER(C12, symbol, __VA_ARGS__)                                                              \
    WRAPPER(C13, symbol, __VA_ARGS__)                                                              \
    WRAPPER(CANY, symbol, __VA_ARGS__)
#include "preload/hooks/cupti_calls.def"
