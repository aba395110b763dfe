/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of the user's ranges on each stream. Ranges are numbered as they are met, and the newest
 * MOST_RANGES are known. Each range has a list of extents, one or two: one per stream that it
 * used. */
#include "writer/join/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

#define MOST_RANGES  (1u << 18)
#define MOST_EXTENTS (1u << 20)
#define HASH         (1u << 16)

struct extent {
    struct range_extent what;
    uint64_t window;
    uint32_t next;  /* index of the next extent of its range; 0: none */
    uint32_t range; /* number */
};

struct range {
    uint32_t number; /* 0: unused */
    uint32_t parent; /* number */
    uint32_t chain;  /* number of the next range with this hash */
    uint32_t extents;
    uint64_t id;
    const char *name;
    uint32_t name_len, source_len; /* source: XLA's, behind the name */
    bool is_xla;                   /* its name tells of an instruction or a module of XLA's */
};

static struct range *ranges; /* by number; the newest replaces the oldest */
static uint32_t *heads;      /* number, by hash of the id */
static uint32_t last;        /* the last number given */
static struct extent *extents;
static uint32_t n_extents, room; /* extents[0] is not used */
static uint64_t refused;
static bool any_xla; /* some range was of XLA's */

static struct range *range_at(uint32_t number)
{
    if (!ranges || number == RANGE_NONE || number == RANGE_UNKNOWN)
        return NULL;
    struct range *r = &ranges[number & (MOST_RANGES - 1)];
    return r->number == number ? r : NULL;
}

static uint32_t hash_of_range(uint64_t id)
{
    return (uint32_t)(id * 0x9e3779b97f4a7c15u >> 48) & (HASH - 1);
}

static uint32_t find_range(uint64_t id)
{
    if (!heads)
        return RANGE_NONE;
    uint32_t number = heads[hash_of_range(id)];
    for (struct range *r = range_at(number); r; number = r->chain, r = range_at(number))
        if (r->id == id)
            return number;
    return RANGE_NONE;
}

static bool make_tables(void)
{
    if (!ranges)
        ranges = calloc(MOST_RANGES, sizeof *ranges);
    if (!heads)
        heads = calloc(HASH, sizeof *heads);
    return ranges && heads;
}

static uint32_t add_range(const struct note *note, uint32_t parent)
{
    if (!make_tables())
        return parent;
    uint32_t number = ++last;
    if (number == RANGE_UNKNOWN || number == RANGE_NONE)
        number = last = 1;
    struct range *r = &ranges[number & (MOST_RANGES - 1)];
    uint32_t *head = &heads[hash_of_range(note->id)];
    *r = (struct range){.number = number,
                        .parent = parent,
                        .chain = *head,
                        .id = note->id,
                        .name = note->name,
                        .name_len = note->name_len,
                        .source_len = note->source_len,
                        .is_xla = memmem(note->name, note->name_len, "hlo_", 4) != NULL};
    any_xla |= r->is_xla;
    *head = number;
    return number;
}

uint32_t ranges_of(struct timeline *t, struct note *note)
{
    if (note->range != RANGE_UNKNOWN)
        return note->range;
    bool is_range = note->category == CAT_USER_ANNOTATION && note->name;
    uint32_t range = is_range ? find_range(note->id) : RANGE_NONE;
    if (range != RANGE_NONE) /* usual for open spans: no note keeps their answer */
        return note->range = range;
    struct note open;
    struct note *parent = timeline_span(t, note->parent, &open);
    range = parent ? ranges_of(t, parent) : RANGE_NONE;
    return note->range = is_range ? add_range(note, range) : range;
}

static struct extent *new_extent(void)
{
    if (n_extents + 1 >= room) {
        uint32_t more = room ? room * 2 : 1024;
        struct extent *bigger =
            more <= MOST_EXTENTS ? realloc(extents, more * sizeof *extents) : NULL;
        if (!bigger)
            return NULL;
        extents = bigger;
        room = more;
    }
    return &extents[++n_extents];
}

static void extend_one(struct range *r, uint64_t window, uint32_t device, uint32_t stream,
                       uint64_t start, uint64_t end)
{
    for (uint32_t at = r->extents; at; at = extents[at].next) {
        struct extent *e = &extents[at];
        if (e->what.device != device || e->what.stream != stream || e->window != window)
            continue;
        e->what.start = start < e->what.start ? start : e->what.start;
        e->what.end = end > e->what.end ? end : e->what.end;
        return;
    }
    struct extent *e = new_extent();
    if (!e) {
        refused++;
        return;
    }
    *e = (struct extent){.what = {.name = r->name,
                                  .name_len = r->name_len,
                                  .device = device,
                                  .stream = stream,
                                  .id = r->id,
                                  .start = start,
                                  .end = end},
                         .window = window,
                         .next = r->extents,
                         .range = r->number};
    r->extents = n_extents;
}

void ranges_extend(uint32_t range, uint64_t window, uint32_t device, uint32_t stream,
                   uint64_t start, uint64_t end)
{
    for (struct range *r = range_at(range); r; r = range_at(r->parent))
        extend_one(r, window, device, stream, start, end);
}

/* The value of `key` in a name such as `Thunk:#name=a,hlo_op=b#`. */
static struct text value_of(const char *name, uint32_t len, const char *key)
{
    size_t key_len = strlen(key);
    const char *end = name + len;
    for (const char *at = name; (at = memmem(at, (size_t)(end - at), key, key_len)); at++) {
        if (at == name || (at[-1] != '#' && at[-1] != ','))
            continue;
        const char *value = at + key_len, *p = value;
        while (p < end && *p != ',' && *p != '#')
            p++;
        return (struct text){value, (uint32_t)(p - value)};
    }
    return (struct text){NULL, 0};
}

struct hlo ranges_hlo_of(const char *name, uint32_t len, uint32_t source_len)
{
    struct text op = value_of(name, len, "hlo_op=");
    return (struct hlo){
        op, value_of(name, len, "hlo_module="), {name + len, op.len ? source_len : 0}};
}

struct hlo ranges_hlo(uint32_t range)
{
    struct hlo found = {.op.len = 0};
    for (struct range *r = any_xla ? range_at(range) : NULL; r; r = range_at(r->parent)) {
        struct hlo own = {.op.len = 0};
        if (r->is_xla)
            own = ranges_hlo_of(r->name, r->name_len, r->source_len);
        if (!found.op.len) {
            found.op = own.op;
            found.source = own.source;
        }
        if (!found.module.len)
            found.module = own.module;
        if (found.op.len && found.module.len)
            break;
    }
    return found;
}

void ranges_take(uint64_t window, void (*each)(const struct range_extent *, void *), void *arg)
{
    uint32_t kept = 0;
    for (uint32_t at = 1; at <= n_extents; at++) {
        struct range *r = range_at(extents[at].range);
        if (r)
            r->extents = 0; /* linked again below */
    }
    for (uint32_t at = 1; at <= n_extents; at++) {
        if (extents[at].window == window) {
            if (each)
                each(&extents[at].what, arg);
            continue;
        }
        struct range *r = range_at(extents[at].range);
        extents[++kept] = extents[at];
        extents[kept].next = r ? r->extents : 0;
        if (r)
            r->extents = kept;
    }
    n_extents = kept;
}

uint64_t ranges_refused(void)
{
    uint64_t n = refused;
    refused = 0;
    return n;
}
