/* SPDX-License-Identifier: Apache-2.0 */
/* The real function behind an export of a library without version nodes (NCCL, MPI): two copies may live in one process, so
 * it is looked up once for each calling object, not once for all. Application threads; no lock. */
#ifndef PRELOAD_CALLEE_H
#define PRELOAD_CALLEE_H

#include <stdatomic.h>
#include <stdint.h>

#include "preload/resolve.h"

/* What is known for the callers in one loaded object. Never freed; `next` and the addresses are constant once published. */
struct callee {
    struct callee *next;
    uintptr_t low, high; /* addresses of the object, high not included */
    _Atomic uint64_t
        seen; /* resolve_closings when it was found, see resolve_still_open(); any thread */
    _Atomic(void *) real;        /* NULL: not found when `generation` was current; relaxed */
    _Atomic uint64_t generation; /* resolve_generation() of the last lookup in vain; relaxed */
};

/* One export. Any thread adds in front. */
struct callee_slot {
    _Atomic(struct callee *) first; /* any thread adds (release), any reads (acquire) */
};

/* The function that code at the address `caller` would have got without us; NULL: no loaded object has it. The first call from an
 * object, and each one while there is none, goes through the loader (resolve_for_caller()); later ones cost a comparison. Hold no
 * lock. Keeps errno. Any thread. */
void *callee_find(struct callee_slot *slot, const char *symbol,
                  const struct resolve_library *library, const void *caller);

#endif
