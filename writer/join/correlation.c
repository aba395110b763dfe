/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait for their device work, by correlation id. */
#include "writer/join/correlation.h"

#include <stdlib.h>

#define FIRST_CALLS (1u << 12)
#define MOST_CALLS  (1u << 20) /* 80 MB */
#define KEPT_IDS    (1u << 18) /* a call is remembered for so many ids: 20 MB */
#define MOST_HELD   (1u << 20) /* 160 MB, while calls wait for rings that are not drained */
#define HELD_BLOCK  64u

static struct call *table;
static uint64_t n_calls;
static struct held *spare;
static uint64_t held;
static uint64_t newest; /* id */
static bool paused;     /* correlation_pause() was called after `newest` */
static uint64_t given_up;

uint64_t correlation_extend(uint32_t correlation)
{
    uint64_t id = (newest & ~(uint64_t)UINT32_MAX) | correlation;
    int64_t ahead = (int64_t)(id - newest);
    if (paused)
        id += (uint64_t)(id <= newest && newest) << 32;
    else if (ahead > (int64_t)1 << 31 && id >> 32)
        id -= (uint64_t)1 << 32; /* an older one, from before the ids wrapped */
    else if (ahead < -((int64_t)1 << 31))
        id += (uint64_t)1 << 32;
    paused = false;
    if (id > newest)
        newest = id;
    return id;
}

void correlation_pause(void)
{
    paused = true;
}

/* A new call may replace it, because it expects nothing more. It is kept for KEPT_IDS ids: a driver
 * call that is part of it may still come, and would get a row of its own. */
static bool replaceable(const struct call *c)
{
    return c->state == CALL_FREE ||
           (c->state >= CALL_WRITTEN && c->done && newest - c->correlation >= KEPT_IDS);
}

/* Work of this call may or may not come: an empty copy makes no record, a captured launch no
 * kernel. */
static bool in_doubt(const struct call *c)
{
    return c->state >= CALL_WRITTEN &&
           (c->done || c->effect != EFFECT_KERNEL || c->state != CALL_WRITTEN);
}

/* Gives up a call a million ids later: CUPTI dropped its work, or never reported the call. It must
 * not keep its place as long as a window is open. False: too early. */
static bool give_up_call(struct call *c)
{
    if (newest - c->correlation < MOST_CALLS)
        return false;
    given_up += (c->state == CALL_WRITTEN && !c->done) + correlation_drop(c);
    return true;
}

uint64_t correlation_given_up(void)
{
    uint64_t n = given_up;
    given_up = 0;
    return n;
}

static bool move_calls(struct call *to, uint64_t n)
{
    for (uint64_t i = 0; i < n_calls; i++) {
        struct call *place = &to[table[i].correlation & (n - 1)];
        if (table[i].state == CALL_FREE)
            continue;
        if (!replaceable(place) && !replaceable(&table[i]))
            return false;
        if (replaceable(place))
            *place = table[i];
    }
    return true;
}

/* Doubles the table until `id` has a place. */
static bool grow_calls(uint64_t id)
{
    uint64_t n = n_calls ? n_calls * 2 : FIRST_CALLS;
    for (; n <= MOST_CALLS; n *= 2) {
        struct call *bigger = calloc(n, sizeof *bigger);
        if (!bigger)
            return false;
        if (move_calls(bigger, n) && replaceable(&bigger[id & (n - 1)])) {
            free(table);
            table = bigger;
            n_calls = n;
            return true;
        }
        free(bigger);
    }
    return false;
}

struct call *correlation_get(uint64_t id, bool make)
{
    struct call *c = n_calls ? &table[id & (n_calls - 1)] : NULL;
    if (c && c->correlation == id && c->state != CALL_FREE)
        return c;
    if (!make)
        return NULL;
    if ((!c || !replaceable(c)) && grow_calls(id))
        c = &table[id & (n_calls - 1)];
    if (!c || !(replaceable(c) || in_doubt(c) || give_up_call(c)))
        return NULL;
    correlation_drop(c);
    *c = (struct call){.correlation = id};
    return c;
}

bool correlation_hold(struct call *c, const struct gpu_record *r)
{
    if (held >= MOST_HELD)
        return false;
    if (!spare) {
        struct held *block = calloc(HELD_BLOCK, sizeof *block);
        if (!block)
            return false;
        for (unsigned i = 0; i < HELD_BLOCK; i++) {
            block[i].next = spare;
            spare = &block[i];
        }
    }
    struct held *h = spare, *last = c->held;
    spare = h->next;
    h->r = *r;
    h->next = last ? last->next : h;
    if (last)
        last->next = h;
    c->held = h; /* appended at the end: a launched graph may have 100,000 nodes */
    held++;
    return true;
}

void correlation_release(struct call *c,
                         void (*each)(struct call *, const struct gpu_record *, void *), void *arg)
{
    while (c->held) {
        struct held *last = c->held, *h = last->next;
        if (h == last)
            c->held = NULL;
        else
            last->next = h->next;
        each(c, &h->r, arg);
        h->next = spare;
        spare = h;
        held--;
    }
}

static void count_dropped(struct call *c, const struct gpu_record *r, void *count)
{
    (void)c, (void)r;
    ++*(uint64_t *)count;
}

uint64_t correlation_drop(struct call *c)
{
    uint64_t n = 0;
    correlation_release(c, count_dropped, &n);
    return n;
}

void correlation_each(void (*each)(struct call *, void *), void *arg)
{
    for (uint64_t i = 0; i < n_calls; i++)
        if (table[i].state != CALL_FREE)
            each(&table[i], arg);
}

void correlation_forget(uint64_t window)
{
    for (uint64_t i = 0; i < n_calls; i++)
        if (table[i].state == CALL_WRITTEN && table[i].window == window)
            table[i].state = CALL_OUTSIDE;
}

uint64_t correlation_held(void)
{
    return held;
}
