/* SPDX-License-Identifier: Apache-2.0 */
/* See sync_waits.h. */
#include "writer/sync_waits.h"

#include <string.h>

#include "writer/calls.h"
#include "writer/events.h"
#include "writer/gpu_queue.h"

#define MOST_UNSURE 20000u

static struct queue waits; /* the first `old` came before this batch */
static size_t old;
static struct queue unsure; /* whose recording had not come a batch later: until a window ends */

bool sync_waits_put(const struct gpu_record *r)
{
    return queue_put(&waits, r);
}

static bool recording_is_known(const struct gpu_record *r)
{
    struct json_wait unused;
    return r->sync.event == GPU_NONE || events_find(r, calls_extend(r->correlation), &unused);
}

/* The first n have waited for a batch. */
static void settle(size_t n, void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    for (size_t i = 0; i < n; i++) {
        const struct gpu_record *r = &waits.records[i];
        if (recording_is_known(r) || unsure.n >= MOST_UNSURE || !queue_put(&unsure, r))
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
        if (recording_is_known(&unsure.records[i]))
            take(&unsure.records[i], arg);
        else
            unsure.records[kept++] = unsure.records[i];
    }
    unsure.n = kept;
    settle(old, take, arg);
}

void sync_waits_all(void (*take)(const struct gpu_record *r, void *arg), void *arg)
{
    settle(waits.n, take, arg);
    for (size_t i = 0; i < unsure.n; i++)
        take(&unsure.records[i], arg);
    unsure.n = 0;
}
