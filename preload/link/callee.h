/* SPDX-License-Identifier: Apache-2.0 */
/* The real function behind an export of a library without version nodes (NCCL, MPI): two copies may
 * live in one process, so it is looked up once for each calling object, not once for all.
 * Application threads; no lock. */
#ifndef PRELOAD_LINK_CALLEE_H
#define PRELOAD_LINK_CALLEE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/link/resolve.h"

/* What is known for the callers in one loaded object. Never freed; `next` and the addresses are
 * constant once published. */
struct callee {
    struct callee *next;
    uintptr_t low, high; /* addresses of the object, high not included */
    /* resolve_closings when it was found, see resolve_still_open(); any thread */
    _Atomic uint64_t seen;
    _Atomic(void *) real;        /* NULL: not found when `generation` was current; relaxed */
    _Atomic uint64_t generation; /* resolve_generation() of the last lookup in vain; relaxed */
};

/* One export. Any thread adds in front. */
struct callee_slot {
    _Atomic(struct callee *) first; /* any thread adds (release), any reads (acquire) */
};

/* callee_find() where the entry in front is not the one. */
void *callee_look(struct callee_slot *slot, const char *symbol,
                  const struct resolve_library *library, const void *caller);

/* True when the entry says what code at this address got since a dlclose() was last over. While one
 * is under way it is still good, and what looked anew would wait for the loader's lock; the closed
 * object's destructor may wait for just this thread. */
static inline bool callee_holds(struct callee *c, uintptr_t at, uint64_t closings)
{
    return at >= c->low && at < c->high &&
           resolve_still_open(atomic_load_explicit(&c->seen, memory_order_acquire), closings);
}

/* callee_find() where the entry in front is the one, else NULL: for who has a slower way for the
 * rest. */
static inline void *callee_in_front(struct callee_slot *slot, const void *caller)
{
    uint64_t closings = atomic_load_explicit(&resolve_closings, memory_order_acquire);
    struct callee *c = atomic_load_explicit(&slot->first, memory_order_acquire);
    return c && callee_holds(c, (uintptr_t)caller, closings)
               ? atomic_load_explicit(&c->real, memory_order_relaxed)
               : NULL;
}

/* The function that code at the address `caller` would have got without us; NULL: no loaded object
 * has it. The first call from an object, and each one while there is none, goes through the loader
 * (resolve_for_caller()); later ones cost a comparison. Hold no lock. Keeps errno. Any thread. */
static inline void *callee_find(struct callee_slot *slot, const char *symbol,
                                const struct resolve_library *library, const void *caller)
{
    void *real = callee_in_front(slot, caller);
    return __builtin_expect(real != NULL, 1) ? real : callee_look(slot, symbol, library, caller);
}

/* True when the code at the address `caller`, for which callee_find() gave `real`, lies in the same
 * object as that: a library calls itself. A few comparisons, but where nothing could be remembered:
 * that goes through the loader. Hold no lock. Keeps errno. Any thread. */
bool callee_is_own(struct callee_slot *slot, const void *caller, const void *real);

#endif
