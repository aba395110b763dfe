/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of CUDA events, for the waits that name them. The last recordings of each event are
 * kept, because a wait may arrive after many later ones. From CUPTI 12.8 on, each recording has a
 * name of its own and is found by that. */
#include "writer/join/events.h"

#include <stdlib.h>

#define EVENTS (1u << 14) /* events at a time; the newest stay */
#define KEPT   32u        /* recordings of each */
#define NAMED  (1u << 16) /* recordings by name; the newest stay */
#define PROBES 8u

struct recording {
    uint64_t correlation; /* 0: none */
    uint64_t sync;
    uint32_t stream;
};

struct event {
    uint32_t event, context;
    uint32_t next; /* index of the recording to overwrite */
    struct recording last[KEPT];
};

static struct event *table;
static struct recording *named;
static uint64_t newest, before_pause; /* correlation ids of recordings */

/* The entry of an event. `make`: a new event replaces a free or the least recently recorded entry
 * nearby. */
static struct event *event_entry(uint32_t event, uint32_t context, bool make)
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

void events_pause(void)
{
    before_pause = newest;
}

void events_note(const struct gpu_record *r, uint64_t correlation)
{
    newest = correlation > newest ? correlation : newest;
    struct recording one = {correlation, r->event.event_sync, r->stream};
    if (one.sync && !named)
        named = calloc(NAMED, sizeof *named);
    if (one.sync && named)
        named[one.sync & (NAMED - 1)] = one;
    struct event *e = event_entry(r->event.event, r->context, true);
    if (!e)
        return;
    e->last[e->next] = one;
    e->next = (e->next + 1) % KEPT;
}

/* The last recording of the event before the wait. */
static const struct recording *find_by_order(const struct gpu_record *r, uint64_t correlation)
{
    struct event *e = event_entry(r->sync.event, r->context, false);
    const struct recording *best = NULL;
    for (uint32_t i = 0; e && i < KEPT; i++) {
        const struct recording *one = &e->last[i];
        if (one->correlation > before_pause && one->correlation < correlation &&
            (!best || one->correlation > best->correlation))
            best = one;
    }
    return best;
}

static const struct recording *find_by_name(uint64_t sync)
{
    const struct recording *one = named ? &named[sync & (NAMED - 1)] : NULL;
    return one && one->correlation && one->sync == sync ? one : NULL;
}

bool events_find(const struct gpu_record *r, uint64_t correlation, struct json_wait *out)
{
    const struct recording *found = NULL;
    if (r->sync.event != GPU_NONE)
        found =
            r->sync.event_sync ? find_by_name(r->sync.event_sync) : find_by_order(r, correlation);
    *out = found ? (struct json_wait){found->stream, (uint32_t)found->correlation}
                 : (struct json_wait){-1, -1};
    return found != NULL;
}
