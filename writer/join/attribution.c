/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel did the work of a span with a FLOP count. */
#include "writer/join/attribution.h"

#include <stdlib.h>

#define WAYS 8u /* places that a span may take */

struct waiting {
    struct call call;
    struct gpu_record r;
    bool ended; /* the span had ended when the kernel came, or a batch ago */
};

static struct share *shares; /* sets of WAYS; NULL: none yet */
static struct waiting *waiting;
static size_t n_waiting;

/* The places that a span may take. Ids of one thread are consecutive, and programs are regular:
 * multiplied by the golden ratio, they spread evenly (Knuth, The Art of Computer Programming,
 * 6.4). */
static struct share *places_of(uint64_t span)
{
    if (!shares)
        shares = calloc(ATTRIBUTION_MOST, sizeof *shares);
    uint64_t set = (span * UINT64_C(0x9e3779b97f4a7c15) >> 32) * (ATTRIBUTION_MOST / WAYS) >> 32;
    return shares ? &shares[set * WAYS] : NULL;
}

struct share *attribution_find(uint64_t span)
{
    struct share *s = span ? places_of(span) : NULL;
    for (unsigned i = 0; s && i < WAYS; i++)
        if (s[i].span == span)
            return &s[i];
    return NULL;
}

const struct share *attribution_place(uint64_t span)
{
    struct share *s = attribution_find(span);
    s = s ? attribution_find(s->outermost) : NULL;
    if (!s || s->placed)
        return NULL;
    s->placed = true;
    return s;
}

/* Replaces the span of the set that has not launched for longest. */
static struct share *make_share(const struct note *n)
{
    struct share *s = places_of(n->id), *oldest = s;
    for (unsigned i = 1; s && i < WAYS; i++)
        if (s[i].used < oldest->used)
            oldest = &s[i];
    if (oldest)
        *oldest = (struct share){.span = n->id,
                                 .outermost = n->id,
                                 .flops = n->flops,
                                 .bytes = n->bytes,
                                 .where = n->where};
    return oldest;
}

static struct share *enter(const struct note *n)
{
    static uint64_t now;
    struct share *s = attribution_find(n->id);
    s = s ? s : make_share(n);
    if (s)
        s->used = ++now;
    return s;
}

uint64_t attribution_launch(struct timeline *t, uint64_t span)
{
    struct note open, above;
    const struct note *n = span ? timeline_counted(t, span, &open) : NULL;
    struct share *s = n ? enter(n) : NULL;
    if (!s)
        return 0;
    s->launches += s->launches < UINT16_MAX;
    uint64_t id = n->id;
    while (n && n->flags & REC_IN_COUNTED) {
        n = timeline_counted(t, n->parent, &above);
        if (n && enter(n))
            s->outermost = n->id;
    }
    return id;
}

/* An open span may launch more. */
static bool span_ended(const struct call *c)
{
    struct note open;
    struct timeline *t = timeline_of(c->at.tid);
    return !t || timeline_span(t, c->counted, &open) != &open;
}

bool attribution_wait(const struct call *c, const struct gpu_record *r)
{
    const struct share *s = attribution_find(c->counted);
    if (!s || !s->flops || s->launches > 1 || n_waiting == ATTRIBUTION_WAIT)
        return false;
    if (!waiting)
        waiting = malloc(ATTRIBUTION_WAIT * sizeof *waiting);
    if (!waiting)
        return false;
    waiting[n_waiting++] = (struct waiting){*c, *r, span_ended(c)};
    return true;
}

size_t attribution_waiting(void)
{
    return n_waiting;
}

/* Waits for the batch after the span's end, which has its last launches. */
static bool waits_on(struct waiting *w, bool old)
{
    bool ended = w->ended;
    if (old && !ended)
        w->ended = span_ended(&w->call);
    return !(old && ended);
}

void attribution_settle(size_t n, uint64_t window,
                        void (*put)(struct call *c, const struct gpu_record *r, uint64_t flops,
                                    void *),
                        void *arg)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_waiting; i++) {
        struct waiting *w = &waiting[i];
        if (window ? w->call.window != window : waits_on(w, i < n)) {
            waiting[kept++] = *w;
            continue;
        }
        const struct share *s = attribution_find(w->call.counted);
        put(&w->call, &w->r, s && s->launches == 1 ? s->flops : 0, arg);
    }
    n_waiting = kept;
}
