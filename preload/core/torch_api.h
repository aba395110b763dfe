/* SPDX-License-Identifier: Apache-2.0 */
/* The functions and classes of the torch in this process; torch/torch.c finds them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/core/torch_layout.h"

/* Written once by torch_start() before a callback runs; constant afterwards. */
struct torch_api {
    const struct torch_layout *layout; /* NULL: unknown version, operators are not recorded */
    uint64_t (*add)(void *callback);   /* torch.c describes how the 40-byte callback is passed */
    void (*disable)(uint64_t handle);
    void (*reenable)(uint64_t handle);
    const char *(*name)(const void *function);
    size_t (*num_inputs)(const void *function); /* of the schema; NULL: not found */
    bool (*grad_mode)(void); /* whether gradients are enabled in this thread; NULL: not found */
    /* __cxa_get_globals() of the C++ library (Itanium C++ ABI: Exception Handling, 2.2.2); NULL:
     * not found */
    struct exceptions {
        void *caught;
        uint32_t uncaught;
    } * (*exceptions)(void);
    /* the vtables, which are the first words of a SparseTensorImpl and a SparseCsrTensorImpl; NULL:
     * not found */
    const void *coo_class, *compressed_class;
    const void *undefined_tensor; /* address of the undefined tensor, or NULL */
    const void *(*debug_info)(
        /* the thread's debug info of that kind; NULL: not found */
        uintptr_t kind);
    uintptr_t comms_kind; /* the kind for transfers of c10d */
    char version[32];
};
extern struct torch_api torch_api;
