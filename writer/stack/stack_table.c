/* SPDX-License-Identifier: Apache-2.0 */
/* Each stack once, found by its print. A table is an array of entries that fills from the front,
 * and slots that lead to them: upper half of the print << 32 | entry. An entry is filled before its
 * slot, so a found entry is whole. When two threads add the same, one uses the other's entry and
 * its own stays unused. */
#define _GNU_SOURCE
#include "writer/stack/stack_table.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "writer/base/base.h"

#define NODES_PER_STACK 8u /* stacks share most of their frames */
#define TEXT_PER_STACK  128u
#define NODES_MOST      (1u << 27)

/* Entries by print; the first field of an entry is its print. */
struct table {
    /* adding threads write (compare and swap, release), all read (acquire) */
    _Atomic uint64_t *slots;
    char *entries;
    _Atomic uint32_t used; /* next entry, from 1; adding threads write, relaxed */
    uint32_t most, mask;   /* number of entries; slots - 1 */
    uint32_t size;         /* of an entry */
};

struct stack {
    uint64_t print;
    uint32_t node;
};

struct node {
    uint64_t print;
    uint32_t caller, frame;
};

static struct table stacks, nodes, frames;
static _Atomic bool full; /* a table or the texts are full; nothing is added any more */
static char *texts;
static _Atomic uint32_t texts_used; /* bytes; adding threads write, relaxed */
static uint32_t texts_most;

static void *map(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* At most half of the slots are used, so that each search ends. */
static bool make_table(struct table *t, uint32_t most, uint32_t size)
{
    uint32_t n = 16;
    while (n < 2 * most)
        n *= 2;
    *t = (struct table){.used = 1, .most = most, .mask = n - 1, .size = size};
    t->slots = map(n * sizeof *t->slots);
    t->entries = map((uint64_t)most * size);
    return t->slots && t->entries;
}

bool stack_table_start(uint32_t most)
{
    uint32_t n = most < NODES_MOST / NODES_PER_STACK ? most * NODES_PER_STACK : NODES_MOST;
    texts_most = most * TEXT_PER_STACK;
    atomic_store(&full, false);
    texts = map(texts_most);
    return texts && make_table(&stacks, most + 1, sizeof(struct stack)) &&
           make_table(&nodes, n + 1, sizeof(struct node)) &&
           make_table(&frames, n / 2 + 1, sizeof(struct stack_frame));
}

static inline void *entry(const struct table *t, uint32_t id)
{
    return t->entries + (uint64_t)id * t->size;
}

static inline bool slot_matches(const struct table *t, uint64_t slot, uint64_t print)
{
    return slot >> 32 == print >> 32 && *(const uint64_t *)entry(t, (uint32_t)slot) == print;
}

static inline uint32_t find_print(const struct table *t, uint64_t print)
{
    for (uint32_t at = (uint32_t)print & t->mask;; at = (at + 1) & t->mask) {
        uint64_t slot = atomic_load_explicit(&t->slots[at], memory_order_acquire);
        if (!slot)
            return 0;
        if (slot_matches(t, slot, print))
            return (uint32_t)slot;
    }
}

static uint32_t set_full(void)
{
    atomic_store_explicit(&full, true, memory_order_relaxed);
    return 0;
}

/* An unused entry; 0: no room. */
static uint32_t take_entry(struct table *t)
{
    if (atomic_load_explicit(&t->used, memory_order_relaxed) >= t->most)
        return set_full();
    uint32_t id = atomic_fetch_add_explicit(&t->used, 1, memory_order_relaxed);
    return id < t->most ? id : set_full();
}

/* Publishes a filled entry. Returns its id, or that of an entry with the same print. */
static uint32_t publish(struct table *t, uint64_t print, uint32_t id)
{
    uint64_t wanted = print >> 32 << 32 | id;
    for (uint32_t at = (uint32_t)print & t->mask;; at = (at + 1) & t->mask) {
        uint64_t slot = 0;
        if (atomic_compare_exchange_strong_explicit(&t->slots[at], &slot, wanted,
                                                    memory_order_acq_rel, memory_order_acquire))
            return id;
        if (slot_matches(t, slot, print))
            return (uint32_t)slot;
    }
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint32_t stack_table_find(uint64_t print)
{
    uint32_t id = find_print(&stacks, print);
    return id ? ((const struct stack *)entry(&stacks, id))->node : 0;
}

bool stack_table_full(void)
{
    return atomic_load_explicit(&full, memory_order_relaxed) ||
           atomic_load_explicit(&stacks.used, memory_order_relaxed) >= stacks.most;
}

uint32_t stack_table_add(uint64_t print, uint32_t node)
{
    uint32_t id = take_entry(&stacks);
    if (!id)
        return 0;
    struct stack *s = entry(&stacks, id);
    *s = (struct stack){print, node};
    id = publish(&stacks, print, id);
    return ((const struct stack *)entry(&stacks, id))->node;
}

static uint32_t node_of(uint32_t caller, uint32_t frame)
{
    if (!frame)
        return 0;
    uint64_t print = mix((uint64_t)caller << 32 | frame); /* the mix is one to one */
    uint32_t id = find_print(&nodes, print);
    if (id || !(id = take_entry(&nodes)))
        return id;
    struct node *n = entry(&nodes, id);
    *n = (struct node){print, caller, frame};
    return publish(&nodes, print, id);
}

/* Stores file and name one after the other. False: no room. */
static bool keep_text(struct stack_frame *f, const char *file, const char *name)
{
    uint32_t n = (uint32_t)f->file_len + f->name_len;
    if (atomic_load_explicit(&texts_used, memory_order_relaxed) > texts_most - n)
        return set_full();
    uint32_t at = atomic_fetch_add_explicit(&texts_used, n, memory_order_relaxed);
    if (at > texts_most - n)
        return set_full();
    memcpy(texts + at, file, f->file_len);
    memcpy(texts + at + f->file_len, name, f->name_len);
    f->text = at;
    return true;
}

static uint32_t frame_of(const struct stack_frame *like, const char *file, const char *name)
{
    uint32_t id = find_print(&frames, like->print);
    if (id || !(id = take_entry(&frames)))
        return id;
    struct stack_frame *f = entry(&frames, id), made = *like;
    bool kept = made.pc || keep_text(&made, file, name);
    made.print = 0;
    *f = made;
    __atomic_store_n(&f->print, like->print, __ATOMIC_RELEASE); /* now the entry is whole */
    return kept ? publish(&frames, f->print, id) : 0;
}

uint32_t stack_table_python(uint32_t caller, const char *file, uint32_t file_len, const char *name,
                            uint32_t name_len, int32_t line)
{
    struct stack_frame f = {.file_len = (uint16_t)(file_len < 4096 ? file_len : 4096),
                            .name_len = (uint16_t)(name_len < 4096 ? name_len : 4096),
                            .line = line};
    uint64_t print = hash_text(file, f.file_len) * 1099511628211u ^ hash_text(name, f.name_len);
    f.print = mix(print ^ (uint64_t)(uint32_t)line << 32);
    return node_of(caller, frame_of(&f, file, name));
}

uint32_t stack_table_native(uint32_t caller, uint64_t pc, uint32_t object)
{
    struct stack_frame f = {.print = mix(pc ^ mix(object)), .pc = pc, .object = object};
    return node_of(caller, frame_of(&f, NULL, NULL));
}

bool stack_table_has(uint32_t node)
{
    return node != 0 && node < stack_table_nodes();
}

uint32_t stack_table_caller(uint32_t node)
{
    return ((const struct node *)entry(&nodes, node))->caller;
}

uint32_t stack_table_frame_of(uint32_t node)
{
    return ((const struct node *)entry(&nodes, node))->frame;
}

const struct stack_frame *stack_table_frame(uint32_t frame)
{
    return entry(&frames, frame);
}

const struct stack_frame *stack_table_frame_if_whole(uint32_t frame)
{
    const struct stack_frame *f = entry(&frames, frame);
    return __atomic_load_n(&f->print, __ATOMIC_ACQUIRE) ? f : NULL;
}

uint32_t stack_table_frames(void)
{
    uint32_t n = atomic_load_explicit(&frames.used, memory_order_relaxed);
    return n < frames.most ? n : frames.most;
}

const char *stack_table_text(const struct stack_frame *frame)
{
    return texts + frame->text;
}

uint32_t stack_table_nodes(void)
{
    uint32_t n = atomic_load_explicit(&nodes.used, memory_order_relaxed);
    return n < nodes.most ? n : nodes.most;
}
