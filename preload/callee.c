/* SPDX-License-Identifier: Apache-2.0 */
/* See callee.h. */
#define _GNU_SOURCE
#include "preload/callee.h"

#include <link.h>

#include "writer/writer.h"

#define CALLEES 2048u /* in all; what finds no room is looked up each time */

static struct callee pool[CALLEES];
static _Atomic uint32_t used;

struct extent {
    uintptr_t at, low, high;
};

/* For loader_walk(): the addresses of the object that holds `at`. */
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

static struct callee *known(struct callee_slot *slot, uintptr_t at)
{
    struct callee *c = atomic_load_explicit(&slot->first, memory_order_acquire);
    while (c && (at < c->low || at >= c->high))
        c = c->next;
    return c;
}

/* Remembers what was found. Two threads may do so at once: the second entry is never reached. */
static void remember(struct callee_slot *slot, uintptr_t at, void *real, uint64_t generation)
{
    struct extent e = {.at = at};
    uint32_t n = atomic_load_explicit(&used, memory_order_relaxed);
    if (n >= CALLEES || loader_walk(find_extent, &e) == 0 ||
        (n = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed)) >= CALLEES)
        return;
    struct callee *c = &pool[n];
    c->low = e.low;
    c->high = e.high;
    atomic_store_explicit(&c->real, real, memory_order_relaxed);
    atomic_store_explicit(&c->generation, generation, memory_order_relaxed);
    c->next = atomic_load_explicit(&slot->first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&slot->first, &c->next, c, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

void *callee_find(struct callee_slot *slot, const char *symbol,
                  const struct resolve_library *library, const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    struct callee *c = known(slot, at);
    void *real = c ? atomic_load_explicit(&c->real, memory_order_relaxed) : NULL;
    if (real)
        return real;
    uint64_t generation = resolve_generation();
    if (c && atomic_load_explicit(&c->generation, memory_order_relaxed) == generation)
        return NULL;
    real = resolve_next(symbol, library, caller);
    if (!c) {
        remember(slot, at, real, generation);
        return real;
    }
    atomic_store_explicit(&c->generation, generation, memory_order_relaxed);
    if (real)
        atomic_store_explicit(&c->real, real, memory_order_relaxed);
    return real;
}
