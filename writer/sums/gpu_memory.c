/* SPDX-License-Identifier: Apache-2.0 */
/* Driver memory that a window allocated. Linear probing by address; removal moves later slots back,
 * so there are no tombstones. cprof thread. */
#include "writer/sums/gpu_memory.h"

#include <stddef.h>
#include <stdlib.h>

/* slots of the first table; doubled while more than half are used */
#define FIRST_CAPACITY 64u

struct gpu_memory_slot {
    uint64_t address; /* 0: empty */
    uint64_t bytes;
    uint64_t since; /* ticks */
    uint32_t total; /* index into `totals` */
    uint32_t pad;
};

/* The total of a record's device and kind, made when it is new. NULL: too many. */
static struct gpu_memory_total *total_of(struct gpu_memory *m, const struct gpu_record *r)
{
    uint32_t device = gpu_memory_device(r);
    for (uint32_t i = 0; i < m->n_totals; i++) {
        if (m->totals[i].device == device && m->totals[i].kind == r->memory.kind)
            return &m->totals[i];
    }
    if (m->n_totals == GPU_MEMORY_TOTALS)
        return NULL;
    struct gpu_memory_total *total = &m->totals[m->n_totals++];
    *total = (struct gpu_memory_total){.device = device, .kind = r->memory.kind};
    return total;
}

/* The first slot of the search for an address. Allocations are aligned, so the product's upper bits
 * are used. */
static uint32_t home_of(const struct gpu_memory *m, uint64_t address)
{
    return (uint32_t)((address * 0x9e3779b97f4a7c15u) >> 32) & (m->capacity - 1);
}

/* The slot of an address, or the empty slot for it. */
static uint32_t find_slot(const struct gpu_memory *m, uint64_t address)
{
    uint32_t i = home_of(m, address);
    while (m->slots[i].address != 0 && m->slots[i].address != address)
        i = (i + 1) & (m->capacity - 1);
    return i;
}

/* Makes room for one more. False: the limit is reached, or no memory. */
static bool grow_slots(struct gpu_memory *m)
{
    if (m->live >= GPU_MEMORY_LIVE)
        return false;
    if (m->live + 1 <= m->capacity / 2)
        return true;
    struct gpu_memory old = *m;
    uint32_t capacity = old.capacity != 0 ? 2 * old.capacity : FIRST_CAPACITY;
    struct gpu_memory_slot *slots = calloc(capacity, sizeof(*slots));
    if (!slots)
        /* one slot must stay empty, or searches would not end */
        return m->capacity != 0 && m->live + 2 <= m->capacity;
    m->slots = slots;
    m->capacity = capacity;
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].address != 0)
            m->slots[find_slot(m, old.slots[i].address)] = old.slots[i];
    }
    free(old.slots);
    return true;
}

/* Empties slot i and moves later slots back where searches would miss them. */
static void take_out_slot(struct gpu_memory *m, uint32_t i)
{
    uint32_t mask = m->capacity - 1;
    for (uint32_t next = (i + 1) & mask; m->slots[next].address != 0; next = (next + 1) & mask) {
        uint32_t home = home_of(m, m->slots[next].address);
        if (((next - home) & mask) >= ((next - i) & mask)) {
            m->slots[i] = m->slots[next];
            i = next;
        }
    }
    m->slots[i].address = 0;
    m->live--;
}

static void allocated(struct gpu_memory *m, const struct gpu_record *r,
                      struct gpu_memory_total *total)
{
    if (m->capacity != 0) {
        uint32_t i = find_slot(m, r->memory.address);
        if (m->slots[i].address != 0) {
            if (r->start < m->slots[i].since)
                return; /* this record came late: its allocation is freed by now */
            m->totals[m->slots[i].total].bytes -= m->slots[i].bytes;
            take_out_slot(m, i);
        }
    }
    if (!grow_slots(m)) {
        m->refused++;
        return;
    }
    m->slots[find_slot(m, r->memory.address)] =
        (struct gpu_memory_slot){.address = r->memory.address,
                                 .bytes = r->memory.bytes,
                                 .since = r->start,
                                 .total = (uint32_t)(total - m->totals)};
    m->live++;
    total->bytes += r->memory.bytes;
    if (total->bytes > total->peak) {
        total->peak = total->bytes;
        total->peak_at = r->start;
    }
}

/* Remembers a release without its allocation, which may come later in another thread's buffer. */
static void note_release(struct gpu_memory *m, const struct gpu_record *r,
                         const struct gpu_memory_total *total)
{
    if (!total || m->live >= GPU_MEMORY_LIVE / 16 || !grow_slots(m))
        return;
    m->slots[find_slot(m, r->memory.address)] = (struct gpu_memory_slot){
        .address = r->memory.address, .since = r->start, .total = (uint32_t)(total - m->totals)};
    m->live++;
}

static void released(struct gpu_memory *m, const struct gpu_record *r,
                     const struct gpu_memory_total *total)
{
    uint32_t i = m->capacity != 0 ? find_slot(m, r->memory.address) : 0;
    if (m->capacity == 0 || m->slots[i].address == 0) {
        note_release(m, r, total);
        return;
    }
    if (r->start < m->slots[i].since)
        return;
    m->totals[m->slots[i].total].bytes -= m->slots[i].bytes;
    take_out_slot(m, i);
}

uint64_t gpu_memory_note(struct gpu_memory *m, const struct gpu_record *r)
{
    struct gpu_memory_total *total = total_of(m, r);
    if (r->memory.address == 0)
        return total ? total->bytes : 0; /* the allocation failed */
    if (r->flags & GPU_RELEASE)
        released(m, r, total);
    else if (total)
        allocated(m, r, total);
    else
        m->refused++;
    return total ? total->bytes : 0;
}

void gpu_memory_free(struct gpu_memory *m)
{
    free(m->slots);
    *m = (struct gpu_memory){0};
}
