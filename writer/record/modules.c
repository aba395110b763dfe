/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers module paths. A number is the position of its path in an area that only grows. A hash
 * table of numbers finds the number of a text. */
#include "writer/record/modules.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define AREA_BYTES (4u << 20) /* bytes for some 80,000 paths */
/* slots of the table, a power of two; more than paths fit into the area */
#define SLOTS (1u << 17)
/* forward operators remembered, a power of two; newer ones overwrite older ones */
#define LINKS (1u << 18)

#define UNIT 8u /* bytes; paths are aligned to it, and numbers count it */

/* A path, constant once its number is in a slot. */
struct path {
    uint32_t len;
    uint32_t hash;
    char text[];
};
_Static_assert(AREA_BYTES / (sizeof(struct path) + UNIT) <= SLOTS * 2, "the area fills up first");

/* Takes no memory until the first path is added. */
static _Alignas(8) char area[AREA_BYTES];
static _Atomic uint64_t area_used;    /* bytes; any thread adds */
static _Atomic uint32_t slots[SLOTS]; /* numbers, 0: empty; any thread adds (release) */
static _Atomic uint32_t n_slots;      /* slots in use; any thread adds */
static _Atomic uint64_t links[LINKS]; /* tag << 24 | number; any thread writes */

_Static_assert(AREA_BYTES / UNIT < 1u << 24, "a link holds 24 bits of the number");

/* FNV-1a, 32 bit. */
static uint32_t hash_of_module(const char *text, uint32_t len)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * 16777619u;
    return h;
}

static struct path *path_at(uint32_t id)
{
    return (struct path *)(void *)&area[(uint64_t)(id - 1) * UNIT];
}

/* Adds a path to the area, not to a slot yet. 0: no room. */
static uint32_t place_path(const char *text, uint32_t len, uint32_t hash)
{
    uint64_t bytes = (sizeof(struct path) + len + UNIT - 1) / UNIT * UNIT;
    uint64_t at = atomic_load_explicit(&area_used, memory_order_relaxed);
    do {
        if (at + bytes > AREA_BYTES)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&area_used, &at, at + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    uint32_t id = (uint32_t)(at / UNIT) + 1;
    struct path *p = path_at(id);
    p->len = len;
    p->hash = hash;
    memcpy(p->text, text, len);
    return id;
}

static bool has_text(uint32_t id, const char *text, uint32_t len, uint32_t hash)
{
    const struct path *p = path_at(id);
    return p->hash == hash && p->len == len && memcmp(p->text, text, len) == 0;
}

uint32_t modules_id(const char *text, uint32_t len)
{
    if (len > MODULE_PATH)
        len = MODULE_PATH;
    uint32_t hash = hash_of_module(text, len), mine = 0;
    for (uint32_t at = hash & (SLOTS - 1);; at = (at + 1) & (SLOTS - 1)) {
        uint32_t id = atomic_load_explicit(&slots[at], memory_order_acquire);
        if (id == 0) {
            if (mine == 0 && atomic_load_explicit(&n_slots, memory_order_relaxed) < SLOTS / 2)
                mine = place_path(text, len, hash);
            if (mine == 0 ||
                atomic_compare_exchange_strong_explicit(&slots[at], &id, mine, memory_order_acq_rel,
                                                        memory_order_acquire)) {
                atomic_fetch_add_explicit(&n_slots, mine != 0, memory_order_relaxed);
                return mine;
            }
        }
        if (has_text(id, text, len, hash))
            return id; /* a copy that this thread has placed stays unused; rare */
    }
}

const char *modules_path(uint64_t id, uint32_t *len)
{
    if (id == 0 || id > atomic_load_explicit(&area_used, memory_order_relaxed) / UNIT)
        return NULL;
    const struct path *p = path_at((uint32_t)id);
    *len = p->len;
    return p->text;
}

static uint64_t mix(uint64_t torch_thread, int64_t sequence)
{
    return ((uint64_t)sequence ^ torch_thread << 44) * UINT64_C(0x9e3779b97f4a7c15);
}

void modules_link(uint64_t torch_thread, int64_t sequence, uint32_t id)
{
    unsigned at = (unsigned)((uint64_t)sequence + torch_thread * 40503u) & (LINKS - 1);
    uint64_t link = mix(torch_thread, sequence) >> 24 << 24 | id;
    atomic_store_explicit(&links[at], link, memory_order_release);
}

uint32_t modules_linked(uint64_t forward_thread, int64_t sequence)
{
    unsigned at = (unsigned)((uint64_t)sequence + forward_thread * 40503u) & (LINKS - 1);
    uint64_t link = atomic_load_explicit(&links[at], memory_order_acquire);
    bool same = link >> 24 == mix(forward_thread, sequence) >> 24;
    return same ? (uint32_t)(link & 0xffffff) : 0;
}
