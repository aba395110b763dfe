/* SPDX-License-Identifier: Apache-2.0 */
/* The real function behind an export without version nodes (NCCL, MPI). A process may hold two
 * copies of such a library, so the lookup is once per calling object. Application threads; no
 * lock. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/link/resolve.h"

/* The result for callers in one loaded object. Never freed; `next` and the addresses do not change
 * once published. */
struct callee {
    struct callee *next;
    uintptr_t low, high; /* address range of the object, `high` excluded */
    /* resolve_closings at the lookup, see resolve_still_open(); any thread */
    _Atomic uint64_t seen;
    _Atomic(void *) real;        /* NULL: not found as of `generation`; relaxed */
    _Atomic uint64_t generation; /* resolve_generation() of the last failed lookup; relaxed */
};

/* The results for one export, newest first. */
struct callee_slot {
    _Atomic(struct callee *) first; /* any thread adds (release) and reads (acquire) */
};

/* callee_find() when the first entry does not match. */
void *callee_look(struct callee_slot *slot, const char *symbol,
                  const struct resolve_library *library, const void *caller);

/* True when the entry is valid for this address: no dlclose() has ended since the lookup. During a
 * dlclose() it stays valid. A new lookup would wait for the loader's lock, while the closed
 * object's destructor may wait for this thread. */
static inline bool callee_holds(struct callee *c, uintptr_t at, uint64_t closings)
{
    return at >= c->low && at < c->high &&
           resolve_still_open(atomic_load_explicit(&c->seen, memory_order_acquire), closings);
}

/* callee_find() if the first entry matches, else NULL. */
static inline void *callee_in_front(struct callee_slot *slot, const void *caller)
{
    uint64_t closings = atomic_load_explicit(&resolve_closings, memory_order_acquire);
    struct callee *c = atomic_load_explicit(&slot->first, memory_order_acquire);
    return c && callee_holds(c, (uintptr_t)caller, closings)
               ? atomic_load_explicit(&c->real, memory_order_relaxed)
               : NULL;
}

/* The function that code at `caller` would call without cprof; NULL: no loaded object has it. The
 * first call from an object goes through the loader (resolve_for_caller()), and so does each one
 * that finds nothing; later calls cost a comparison. Hold no lock. Keeps errno. Any thread. */
static inline void *callee_find(struct callee_slot *slot, const char *symbol,
                                const struct resolve_library *library, const void *caller)
{
    void *real = callee_in_front(slot, caller);
    return __builtin_expect(real != NULL, 1) ? real : callee_look(slot, symbol, library, caller);
}

/* True when `caller` and its function `real` from callee_find() are in the same object: a library
 * calls itself. Costs a few comparisons, or a walk through the loader if no result is stored. Hold
 * no lock. Keeps errno. Any thread. */
bool callee_is_own(struct callee_slot *slot, const void *caller, const void *real);
