/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of tensor memory. A new peak costs nothing: a holder's bytes at the peak are saved when
 * the holder first changes after it. */
#include "writer/sums/memory_owners.h"

#include <stdlib.h>
#include <string.h>

#include "writer/base/base.h"

#define PENDING      (1u << 16) /* most events that wait to be sorted */
#define LIVE_MOST    (1u << 19) /* allocations remembered; at most half of the slots */
#define LIVE_FIRST   1024u
#define HOLDERS_MOST (1u << 15) /* per window: distinct operator, module and stack */
#define HOLDER_SLOTS (1u << 16)

struct live {
    uint64_t address; /* 0: empty */
    int64_t bytes;
    uint32_t holder;
    uint32_t pad;
};

struct holder {
    struct memory_holder now;
    struct memory_holder at_peak; /* bytes and allocations at the peak, if epoch is the device's */
    uint64_t epoch;
    uint32_t device;
    uint32_t pad;
};

struct memory_owners {
    struct memory_device devices[OWNERS_DEVICES];
    unsigned n_devices;
    struct memory_event *pending; /* owned, room for PENDING */
    uint32_t n_pending;
    bool unsorted; /* the pending events are not in time order */
    uint64_t taken;
    struct live *live; /* open addressing by address, owned */
    uint32_t live_slots, live_used;
    struct holder *holders; /* owned, grows up to HOLDERS_MOST */
    uint32_t n_holders, holder_room;
    uint16_t by_key[HOLDER_SLOTS]; /* index + 1 of a holder; 0: empty */
};

/* ---- live allocations ---- */

static uint32_t home_of(const struct memory_owners *o, uint64_t address)
{
    return (uint32_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (o->live_slots - 1);
}

/* The slot of an address, or the empty slot for it. */
static uint32_t find_live(const struct memory_owners *o, uint64_t address)
{
    uint32_t i = home_of(o, address);
    while (o->live[i].address != 0 && o->live[i].address != address)
        i = (i + 1) & (o->live_slots - 1);
    return i;
}

static bool grow_live(struct memory_owners *o)
{
    struct memory_owners before = {.live = o->live, .live_slots = o->live_slots};
    uint32_t slots = before.live_slots ? before.live_slots * 2 : LIVE_FIRST;
    struct live *bigger = o->live_used < LIVE_MOST ? calloc(slots, sizeof *bigger) : NULL;
    if (!bigger)
        return false;
    o->live = bigger;
    o->live_slots = slots;
    for (uint32_t i = 0; i < before.live_slots; i++)
        if (before.live[i].address)
            o->live[find_live(o, before.live[i].address)] = before.live[i];
    free(before.live);
    return true;
}

/* Empties a slot and moves later slots back where searches would miss them. */
static void remove_live(struct memory_owners *o, uint32_t i)
{
    uint32_t mask = o->live_slots - 1;
    for (uint32_t next = (i + 1) & mask; o->live[next].address; next = (next + 1) & mask) {
        uint32_t home = home_of(o, o->live[next].address);
        if (((next - home) & mask) >= ((next - i) & mask)) {
            o->live[i] = o->live[next];
            i = next;
        }
    }
    o->live[i].address = 0;
    o->live_used--;
}

/* ---- holders ---- */

static bool same_holder(const struct holder *h, const struct memory_event *e, uint32_t device)
{
    return h->now.name == e->name && h->now.module == e->module &&
           h->now.stack == (uint32_t)e->stack && h->device == device;
}

/* Adds a holder. Returns its index, or UINT32_MAX: no memory. */
static uint32_t add_holder(struct memory_owners *o, const struct memory_event *e, uint32_t device)
{
    if (o->n_holders == o->holder_room) {
        uint32_t room = o->holder_room ? o->holder_room * 2 : 64;
        struct holder *bigger = realloc(o->holders, room * sizeof *bigger);
        if (!bigger)
            return UINT32_MAX;
        o->holders = bigger;
        o->holder_room = room;
    }
    o->holders[o->n_holders] = (struct holder){.now = {.name = e->name,
                                                       .name_len = e->name_len,
                                                       .module = e->module,
                                                       .stack = (uint32_t)e->stack},
                                               .device = device};
    return o->n_holders++;
}

/* The holder of an allocation. UINT32_MAX: too many holders, or no memory. */
static uint32_t holder_of(struct memory_owners *o, const struct memory_event *e, uint32_t device)
{
    uint64_t key = ((uint64_t)(uintptr_t)e->name >> 3) ^ (uint64_t)e->module << 24 ^
                   e->stack << 36 ^ (uint64_t)device << 56;
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (HOLDER_SLOTS - 1);
    while (o->by_key[at] && !same_holder(&o->holders[o->by_key[at] - 1], e, device))
        at = (at + 1) & (HOLDER_SLOTS - 1);
    if (o->by_key[at])
        return o->by_key[at] - 1u;
    uint32_t n = o->n_holders < HOLDERS_MOST ? add_holder(o, e, device) : UINT32_MAX;
    if (n != UINT32_MAX)
        o->by_key[at] = (uint16_t)(n + 1);
    return n;
}

static void change_holder(struct memory_owners *o, uint32_t n, int64_t bytes)
{
    struct holder *h = &o->holders[n];
    uint64_t epoch = o->devices[h->device].epoch;
    if (h->epoch != epoch) {
        h->at_peak = h->now;
        h->epoch = epoch;
    }
    h->now.bytes += bytes;
    h->now.allocations += bytes > 0 ? 1u : (uint64_t)-1;
}

/* ---- events in time order ---- */

static void release(struct memory_owners *o, uint32_t i)
{
    change_holder(o, o->live[i].holder, -o->live[i].bytes);
    remove_live(o, i);
}

static void allocate(struct memory_owners *o, const struct memory_event *e, uint32_t device)
{
    if (o->live_slots) {
        uint32_t i = find_live(o, e->address);
        if (o->live[i].address)
            release(o, i); /* its release was lost */
    }
    if (o->live_used + 1 > o->live_slots / 2 && !grow_live(o))
        return;
    uint32_t holder = holder_of(o, e, device);
    if (holder == UINT32_MAX)
        return;
    o->live[find_live(o, e->address)] = (struct live){e->address, e->bytes, holder, 0};
    o->live_used++;
    change_holder(o, holder, e->bytes);
}

/* OWNERS_DEVICES: too many devices. */
static uint32_t device_of(struct memory_owners *o, const struct memory_event *e)
{
    for (uint32_t i = 0; i < o->n_devices; i++)
        if (o->devices[i].type == e->state.device_type &&
            o->devices[i].index == e->state.device_index)
            return i;
    if (o->n_devices == OWNERS_DEVICES)
        return OWNERS_DEVICES;
    int64_t before = e->state.total_allocated - (e->failed ? 0 : e->bytes);
    o->devices[o->n_devices] = (struct memory_device){.type = e->state.device_type,
                                                      .index = e->state.device_index,
                                                      .first = before,
                                                      .last = before,
                                                      .peak = before,
                                                      .peak_reserved = e->state.total_reserved,
                                                      .peak_at = e->start,
                                                      .epoch = 1};
    return o->n_devices++;
}

static void count_event(struct memory_owners *o, const struct memory_event *e)
{
    uint32_t n = device_of(o, e);
    if (n == OWNERS_DEVICES)
        return;
    struct memory_device *device = &o->devices[n];
    if (e->bytes > 0) {
        allocate(o, e, n);
    } else if (o->live_slots) {
        uint32_t i = find_live(o, e->address);
        if (o->live[i].address)
            release(o, i);
    }
    device->last = e->state.total_allocated;
    if (device->last <= device->peak)
        return;
    device->peak = device->last;
    device->peak_reserved = e->state.total_reserved;
    device->peak_at = e->start;
    device->epoch++;
}

/* Inserts a holder among the largest. */
static void rank(struct memory_holders *out, const struct memory_holder *h)
{
    unsigned at = out->n;
    while (at > 0 && out->top[at - 1].bytes < h->bytes)
        at--;
    if (out->n == OWNERS_TOP)
        out->others += at < OWNERS_TOP ? out->top[OWNERS_TOP - 1].bytes : h->bytes;
    else
        out->n++;
    if (at >= OWNERS_TOP)
        return;
    memmove(&out->top[at + 1], &out->top[at], (out->n - 1 - at) * sizeof *out->top);
    out->top[at] = *h;
}

/* total: bytes allocated on the device at that time. */
static void holders_of(const struct memory_owners *o, const struct memory_device *device,
                       bool at_peak, int64_t total, struct memory_holders *out)
{
    *out = (struct memory_holders){.unknown = total};
    for (uint32_t i = 0; i < o->n_holders; i++) {
        const struct holder *h = &o->holders[i];
        bool noted = at_peak && h->epoch == device->epoch;
        const struct memory_holder *then = noted ? &h->at_peak : &h->now;
        if (&o->devices[h->device] != device || then->bytes <= 0)
            continue;
        out->unknown -= then->bytes;
        rank(out, then);
    }
}

void memory_owners_at_peak(const struct memory_owners *o, const struct memory_device *device,
                           struct memory_holders *out)
{
    holders_of(o, device, true, device->peak, out);
}

void memory_owners_at_end(const struct memory_owners *o, const struct memory_device *device,
                          struct memory_holders *out)
{
    holders_of(o, device, false, device->last, out);
}

static int by_time(const void *left, const void *right)
{
    const struct memory_event *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void memory_owners_settle(struct memory_owners *o, uint64_t ticks,
                          void (*failed)(const struct memory_event *, const struct memory_holders *,
                                         void *),
                          void *arg)
{
    if (!o || o->n_pending == 0)
        return;
    if (o->unsorted)
        qsort(o->pending, o->n_pending, sizeof *o->pending, by_time);
    o->unsorted = false;
    uint32_t done = 0;
    for (; done < o->n_pending && o->pending[done].start < ticks; done++) {
        const struct memory_event *e = &o->pending[done];
        if (!e->failed) {
            count_event(o, e);
            continue;
        }
        struct memory_holders held = {0};
        for (unsigned i = 0; i < o->n_devices; i++)
            if (o->devices[i].type == e->state.device_type &&
                o->devices[i].index == e->state.device_index)
                memory_owners_at_end(o, &o->devices[i], &held);
        failed(e, &held, arg);
    }
    o->n_pending -= done;
    memmove(o->pending, o->pending + done, o->n_pending * sizeof *o->pending);
}

static struct memory_owners *make_owners(void)
{
    struct memory_owners *o = calloc(1, sizeof *o);
    if (o)
        o->pending = malloc(PENDING * sizeof *o->pending);
    if (o && !o->pending) {
        free(o);
        o = NULL;
    }
    return o;
}

bool memory_owners_take(struct memory_owners **made, const struct record *r, uint32_t tid)
{
    struct memory_owners *o = *made ? *made : (*made = make_owners());
    if (!o || r->data_kind != DATA_MEMORY || r->data_len < sizeof(struct record_memory))
        return false;
    struct text name = record_name(r);
    struct memory_event e = {.start = r->start,
                             .order = o->taken++,
                             .address = r->memory.address,
                             .bytes = r->memory.bytes,
                             .name = name.len ? names_keep(name.at, name.len) : NULL,
                             .module = (uint32_t)record_extra(r, EXTRA_MODULE, 0),
                             .parent = r->parent,
                             .stack = record_extra(r, EXTRA_STACK, 0),
                             .tid = tid,
                             .failed = r->kind == REC_OUT_OF_MEMORY};
    e.name_len = e.name ? name.len : 0;
    memcpy(&e.state, record_data(r), sizeof e.state);
    o->unsorted |= o->n_pending && e.start < o->pending[o->n_pending - 1].start;
    o->pending[o->n_pending++] = e;
    return true;
}

bool memory_owners_full(const struct memory_owners *o)
{
    return o && o->n_pending == PENDING;
}

const struct memory_device *memory_owners_device(const struct memory_owners *o, unsigned n)
{
    return o && n < o->n_devices ? &o->devices[n] : NULL;
}

uint64_t memory_owners_bytes(const struct memory_owners *o)
{
    return o ? sizeof *o + o->n_pending * sizeof *o->pending + o->live_slots * sizeof *o->live +
                   o->holder_room * sizeof *o->holders
             : 0;
}

void memory_owners_free(struct memory_owners *o)
{
    if (!o)
        return;
    free(o->pending);
    free(o->live);
    free(o->holders);
    free(o);
}
