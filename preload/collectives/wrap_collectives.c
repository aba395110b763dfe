/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers of NCCL and MPI, one per row of collectives.def. They run on application threads and
 * always forward: MPI_x to the next MPI_x, which may be another profiler's. */
#include "preload/collectives/collectives.h"
#include "preload/core/core.h"

#define EXPORT __attribute__((visibility("default")))

/* Result of a call that no loaded object has; weak probes succeed because of our export.
 * ncclInternalError, and Open MPI's MPI_ERR_OTHER (16; in MPICH also an error). */
#define MISSING_NCCL 3
#define MISSING_MPI  16

/* MPI_IN_PLACE of Open MPI and MPICH. */
#define IN_PLACE(buffer) ((uintptr_t)(buffer) == 1 || (uintptr_t)(buffer) == UINTPTR_MAX)

#define UNPACK(...) __VA_ARGS__

#define COLLECTIVE(family, symbol, what, ...)                                                      \
    EXPORT int symbol HOOK_PARAMS(__VA_ARGS__);                                                    \
    EXPORT int symbol HOOK_PARAMS(__VA_ARGS__)                                                     \
    {                                                                                              \
        struct collective_call call;                                                               \
        struct collective about = {UNPACK what};                                                   \
        collective_begin(&call, COLLECTIVE_##symbol, &about, __builtin_return_address(0));         \
        int(*real) HOOK_PARAMS(__VA_ARGS__) = call.real;                                           \
        if (!real)                                                                                 \
            return MISSING_##family;                                                               \
        int result = real HOOK_ARGS(__VA_ARGS__);                                                  \
        collective_end(&call, COLLECTIVE_##symbol, &about, result);                                \
        return result;                                                                             \
    }
#include "preload/collectives/collectives.def"
