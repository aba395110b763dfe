/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up real functions, once for each calling object. */
#define _GNU_SOURCE
#include "preload/link/callee.h"

#include <link.h>

#include "writer/writer.h"

#define CALLEES 2048u /* for all exports together; callers without a place look up at each call */

static struct callee pool[CALLEES];
static _Atomic uint32_t used;

#define NOT_SEEN UINT64_MAX

struct extent {
    uintptr_t at, low, high;
};

/* For loader_walk(): the address range of the object that holds `at`. */
static int find_extent(struct dl_phdr_info *info, size_t size, void *data)
{
    struct extent *e = data;
    uintptr_t low = UINTPTR_MAX, high = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD)
            continue;
        low = from < low ? from : low;
        high = from + p->p_memsz > high ? from + p->p_memsz : high;
    }
    if (e->at < low || e->at >= high)
        return 0;
    e->low = low;
    e->high = high;
    return 1;
}

/* The valid entry for the object that holds `at`, or NULL. */
static inline struct callee *known(struct callee_slot *slot, uintptr_t at, uint64_t now)
{
    struct callee *c = atomic_load_explicit(&slot->first, memory_order_acquire);
    while (c && !callee_holds(c, at, now))
        c = c->next;
    return c;
}

/* An outdated entry with the same address range. */
static struct callee *of_extent(struct callee_slot *slot, const struct extent *e)
{
    struct callee *c = atomic_load_explicit(&slot->first, memory_order_acquire);
    while (c && (c->low != e->low || c->high != e->high))
        c = c->next;
    return c;
}

/* Two threads may fill an entry at once: they write the same values. */
static void fill(struct callee *c, void *real, uint64_t generation, uint64_t now)
{
    atomic_store(&c->seen, NOT_SEEN);
    atomic_store_explicit(&c->real, real, memory_order_relaxed);
    atomic_store_explicit(&c->generation, generation, memory_order_relaxed);
    atomic_store_explicit(&c->seen, now, memory_order_release);
}

/* Stores a result. Of two equal entries added at once, the later in the list is never reached. */
static void remember_callee(struct callee_slot *slot, uintptr_t at, void *real, uint64_t generation,
                            uint64_t now)
{
    struct extent e = {.at = at};
    if (resolve_is_closing(now) || loader_walk(find_extent, &e) == 0)
        return;
    struct callee *c = of_extent(slot, &e);
    if (c) {
        fill(c, real, generation, now);
        return;
    }
    uint32_t n = atomic_load_explicit(&used, memory_order_relaxed);
    if (n >= CALLEES || (n = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed)) >= CALLEES)
        return;
    c = &pool[n];
    c->low = e.low;
    c->high = e.high;
    fill(c, real, generation, now);
    c->next = atomic_load_explicit(&slot->first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&slot->first, &c->next, c, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

bool callee_is_own(struct callee_slot *slot, const void *caller, const void *real)
{
    uintptr_t at = (uintptr_t)caller, function = (uintptr_t)real;
    struct callee *c = known(slot, at, atomic_load(&resolve_closings));
    if (c)
        return function >= c->low && function < c->high;
    struct extent e = {.at = at};
    return loader_walk(find_extent, &e) != 0 && function >= e.low && function < e.high;
}

void *callee_look(struct callee_slot *slot, const char *symbol,
                  const struct resolve_library *library, const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    uint64_t now = atomic_load_explicit(&resolve_closings, memory_order_acquire);
    struct callee *c = known(slot, at, now);
    void *real = c ? atomic_load_explicit(&c->real, memory_order_relaxed) : NULL;
    if (real)
        return real;
    uint64_t generation = resolve_generation();
    if (c && atomic_load_explicit(&c->generation, memory_order_relaxed) == generation)
        return NULL;
    real = resolve_for_caller(symbol, library, caller);
    remember_callee(slot, at, real, generation, now);
    return real;
}
