/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that came before the recording of their event. */
#include "writer/join/sync_waits.h"

#include <string.h>

#include "writer/join/correlation.h"
#include "writer/join/events.h"
#include "writer/join/gpu_queue.h"

#define MOST_UNSURE 20000u

static struct queue waits; /* the first `old` came before this batch */
static size_t old;
/* Waits whose call or recording did not come within a batch; kept until a window ends, or while
 * there is room. Most are queries, whose call never comes. They are not in the table of calls,
 * where each would take the place of a launch. */
static struct queue unsure;

bool sync_waits_put(const struct gpu_record *r)
{
    return queue_put(&waits, r);
}

static bool call_is_known(const struct gpu_record *r)
{
    const struct call *c = correlation_get(correlation_extend(r->correlation), false);
    return c && c->state >= CALL_WRITTEN;
}

static bool is_ready(const struct gpu_record *r)
{
    struct json_wait unused;
    if (r->correlation == 0)
        return true; /* no call will come */
    return call_is_known(r) && (r->sync.event == GPU_NONE ||
                                events_find(r, correlation_extend(r->correlation), &unused));
}

/* Drops the older half; what has no call by now was a query. */
static void make_waits_room(void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    size_t half = unsure.n / 2;
    if (unsure.n < MOST_UNSURE)
        return;
    for (size_t i = 0; i < half; i++)
        if (call_is_known(&unsure.records[i]))
            take(&unsure.records[i], arg);
    memmove(unsure.records, unsure.records + half, (unsure.n - half) * sizeof *unsure.records);
    unsure.n -= half;
}

/* Takes the first n, which have waited for a batch. */
static void settle_waits(size_t n, void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    for (size_t i = 0; i < n; i++) {
        const struct gpu_record *r = &waits.records[i];
        make_waits_room(take, arg);
        if (is_ready(r) || !queue_put(&unsure, r))
            take(r, arg);
    }
    if (n)
        memmove(waits.records, waits.records + n, (waits.n - n) * sizeof *waits.records);
    waits.n -= n;
    old = waits.n;
}

void sync_waits_batch(void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    size_t kept = 0;
    for (size_t i = 0; i < unsure.n; i++) {
        if (is_ready(&unsure.records[i]))
            take(&unsure.records[i], arg);
        else
            unsure.records[kept++] = unsure.records[i];
    }
    unsure.n = kept;
    settle_waits(old, take, arg);
}

/* Takes those for which last() is true. Of those that stay, returns how many are among the first
 * n. */
static size_t take_if_last(struct queue *q, size_t n,
                           bool (*last)(const struct gpu_record *r, void *arg),
                           void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    size_t kept = 0, of_first = 0;
    for (size_t i = 0; i < q->n; i++) {
        if (last(&q->records[i], arg)) {
            take(&q->records[i], arg);
            continue;
        }
        of_first += i < n;
        q->records[kept++] = q->records[i];
    }
    q->n = kept;
    return of_first;
}

void sync_waits_settle(bool (*last)(const struct gpu_record *r, void *arg),
                       void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    old = take_if_last(&waits, old, last, take, arg);
    take_if_last(&unsure, 0, last, take, arg);
}
