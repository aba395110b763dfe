/* SPDX-License-Identifier: Apache-2.0 */
/* The wrappers around NCCL and MPI, one per row of collectives.def. They run on application
 * threads, in place of the real function, and always forward to it: MPI_x to the next MPI_x, which
 * is another profiler's where one is loaded. */
#include "preload/collectives/collectives.h"
#include "preload/core/core.h"

#define EXPORT __attribute__((visibility("default")))

/* What a call returns when no loaded object has it, because our export makes weak probes succeed:
 * ncclInternalError, MPI_ERR_OTHER of Open MPI (16; MPICH's 15 is also not MPI_SUCCESS). */
#define MISSING_NCCL 3
#define MISSING_MPI  16

/* MPI_IN_PLACE of Open MPI and of MPICH. */
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
        collective_end(&call, &about);                                                             \
        return result;                                                                             \
    }
#include "preload/collectives/collectives.def"
