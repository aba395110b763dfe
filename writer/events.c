/* SPDX-License-Identifier: Apache-2.0 */
/* See events.h. Per event the last few recordings are kept, because a wait may be delivered after a later recording. */
#include "writer/events.h"

#include <stdlib.h>

#define EVENTS (1u << 14) /* event ids at a time; the newest win */
#define KEPT   4u         /* recordings of each */
#define PROBES 8u

struct recording {
    uint64_t correlation; /* 0: none */
    uint64_t sync;
    uint32_t stream;
};

struct event {
    uint32_t event, context;
    uint32_t next; /* recording to overwrite */
    struct recording last[KEPT];
};

static struct event *table;

/* The entry of an event; when it is new and `make`, the place of a free or the least recently recorded one near by. */
static struct event *entry(uint32_t event, uint32_t context, bool make)
{
    if (!table && !(make && (table = calloc(EVENTS, sizeof *table))))
        return NULL;
    uint32_t hash = (event * 0x9e3779b1u) ^ (context * 0x85ebca6bu);
    struct event *oldest = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct event *e = &table[(hash + i) & (EVENTS - 1)];
        uint64_t when = e->last[(e->next + KEPT - 1) % KEPT].correlation;
        if (when && e->event == event && e->context == context)
            return e;
        if (!oldest || when < oldest->last[(oldest->next + KEPT - 1) % KEPT].correlation)
            oldest = e;
    }
    if (!make)
        return NULL;
    *oldest = (struct event){.event = event, .context = context};
    return oldest;
}

void events_note(const struct gpu_record *r, uint64_t correlation)
{
    struct event *e = entry(r->event.event, r->context, true);
    if (!e)
        return;
    e->last[e->next] = (struct recording){correlation, r->event.event_sync, r->stream};
    e->next = (e->next + 1) % KEPT;
}

bool events_find(const struct gpu_record *r, uint64_t correlation, struct json_wait *out)
{
    *out = (struct json_wait){-1, -1};
    struct event *e = r->sync.event != GPU_NONE ? entry(r->sync.event, r->context, false) : NULL;
    const struct recording *best = NULL;
    for (uint32_t i = 0; e && i < KEPT; i++) {
        const struct recording *one = &e->last[i];
        bool exact = r->sync.event_sync && one->sync == r->sync.event_sync;
        bool earlier = !r->sync.event_sync && one->correlation < correlation;
        if (one->correlation && (exact || earlier) &&
            (!best || one->correlation > best->correlation))
            best = one;
    }
    if (best)
        *out = (struct json_wait){best->stream, (uint32_t)best->correlation};
    return best != NULL;
}
