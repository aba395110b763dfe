/* SPDX-License-Identifier: Apache-2.0 */
/* torch inside this process: found when its allocator is first used, listened to through at::addGlobalCallback from C. Files:
 * torch.c finds and registers, torch_ops.c turns callbacks into spans, torch_memory.c allocations into records, torch_shapes.c
 * inputs into shapes; torch_groups.c and torch_comms.c read what is known of transfers. */
#ifndef PRELOAD_TORCH_TORCH_H
#define PRELOAD_TORCH_TORCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/config.h"
#include "preload/torch/torch_layout.h"

/* What is known of the torch in this process. Written once by torch_start(), before a callback
 * runs; constant afterwards. */
struct torch_api {
    const struct torch_layout *layout; /* NULL: version not known, operators stay off */
    uint64_t (*add)(void *callback);   /* see torch.c for how the 40-byte callback is passed */
    void (*disable)(uint64_t handle);
    void (*reenable)(uint64_t handle);
    const char *(*name)(const void *function);
    size_t (*num_inputs)(const void *function); /* of its schema; NULL: not found */
    bool (*grad_mode)(void); /* whether it is on in this thread; NULL: not found */
    /* __cxa_get_globals() of the C++ library (Itanium C++ ABI: Exception Handling, 2.2.2); NULL:
     * not found */
    struct exceptions {
        void *caught;
        uint32_t uncaught;
    } * (*exceptions)(void);
    /* what the first word of a SparseTensorImpl, and of a SparseCsrTensorImpl, is: its table of
     * functions; NULL: not found */
    const void *coo_class, *compressed_class;
    const void *undefined_tensor; /* the address of the one undefined tensor, or NULL */
    const void *(*debug_info)(
        uintptr_t kind);  /* what the thread keeps of that kind; NULL: not found */
    uintptr_t comms_kind; /* of what c10d says of a transfer */
    char version[32];
};
extern struct torch_api torch_api;

/* Finds torch and registers the callbacks: ranges for good, operators switched by torch_operators(). Once, at wake-up, on the
 * waking thread, and again by a later wake-up source if torch was not there yet. Says one line when operators must stay off. */
void torch_start(const struct config *config);

/* torch's allocator is being used: wakes cprof, or registers the callbacks if cprof was woken before torch was there. The allocator's hook
 * calls it until it answers true. */
bool torch_here(void);

/* Switches the operator callback. Called by the thread that marks a step, at its edge; takes the lock that fork waits for. */
void torch_operators(bool on);

/* From now on no callback is switched any more (exit, forked child). */
void torch_stop(void);

/* True after torch_stop(). Any thread. */
bool torch_stopped(void);

/* Turns operators off for good with one line that says what is missing ("operators") and why. Any thread. */
void torch_operators_broken(const char *what, const char *why);

/* ---- torch_ops.c ---- */

/* The start and end callbacks for operators and for ranges, `context` being where the start's std::unique_ptr is put (torch.c: how each
 * processor passes it). Any application thread, inside torch. */
void **torch_operator_start(void **context, const void *function);
void torch_operator_end(const void *function, void *context);   /* as above */
void **torch_range_start(void **context, const void *function); /* as above */
void torch_range_end(const void *function, void *context);      /* as above */

/* ---- torch_shapes.c ---- */

/* Copies the shapes and types of the function's inputs (record.h, DATA_SHAPES) to out, at most `size` bytes; returns the bytes
 * used. Reads by layout, holds no reference, allocates nothing. In the start callback only. */
uint32_t torch_shapes(const void *function, uint8_t *out, uint32_t size);

/* Names of the dtypes by number, and how many. */
const char *const *torch_dtype_names(unsigned *count);

/* ---- torch_memory.c ---- */

/* Forgets the allocations seen so far: a new window begins, and what was freed unseen since the last one must not be taken for
 * alive. As in torch.profiler, a release is reported when the allocation was. Stepping thread, at the edge. */
void torch_memory_restart(void);

/* In the child's atfork handler: its first allocation calls torch_here() again. */
void torch_memory_in_child(void);

#endif
