/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from Python objects to ids of module paths. Linear probing; a removal moves later
 * entries back, so there are no tombstones. */
#include "preload/torch/module_table.h"

#include <stdlib.h>

#define FIRST_SLOTS 256u

struct entry {
    const void *module; /* NULL: empty */
    uint32_t id;
};

static struct entry *entries;
static uint32_t n_slots, used; /* slots: 0 or a power of two, at most half in use */

static uint32_t home_of(const void *module, uint32_t slots)
{
    return (uint32_t)((uint64_t)(uintptr_t)module * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
           (slots - 1);
}

static struct entry *find_module(struct entry *in, uint32_t slots, const void *module)
{
    uint32_t at = home_of(module, slots);
    while (in[at].module && in[at].module != module)
        at = (at + 1) & (slots - 1);
    return &in[at];
}

static bool grow_modules(void)
{
    uint32_t slots = n_slots ? n_slots * 2 : FIRST_SLOTS;
    struct entry *bigger = calloc(slots, sizeof *bigger);
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < n_slots; i++)
        if (entries[i].module)
            *find_module(bigger, slots, entries[i].module) = entries[i];
    free(entries);
    entries = bigger;
    n_slots = slots;
    return true;
}

bool module_table_put(const void *module, uint32_t id)
{
    if ((used + 1) * 2 > n_slots && (used >= MODULE_TABLE_MOST || !grow_modules()))
        return false;
    struct entry *e = find_module(entries, n_slots, module);
    used += e->module == NULL;
    *e = (struct entry){module, id};
    return true;
}

uint32_t module_table_find(const void *module)
{
    return n_slots ? find_module(entries, n_slots, module)->id : 0;
}

void module_table_remove(const void *module)
{
    struct entry *hole = n_slots ? find_module(entries, n_slots, module) : NULL;
    if (!hole || !hole->module)
        return;
    uint32_t mask = n_slots - 1, i = (uint32_t)(hole - entries);
    for (uint32_t next = (i + 1) & mask; entries[next].module; next = (next + 1) & mask) {
        uint32_t home = home_of(entries[next].module, n_slots);
        if (((next - home) & mask) >= ((next - i) & mask)) {
            entries[i] = entries[next];
            i = next;
        }
    }
    entries[i] = (struct entry){NULL, 0};
    used--;
}

void module_table_clear(void)
{
    free(entries);
    entries = NULL;
    n_slots = used = 0;
}
