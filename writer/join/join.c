/* SPDX-License-Identifier: Apache-2.0 */
/* Takes each of CUPTI's records to its place, and settles a window that is being finished. */
#include "writer/join/join.h"

#include <stdlib.h>
#include <string.h>

#include "writer/base/base.h"
#include "writer/join/attribution.h"
#include "writer/join/call_rows.h"
#include "writer/join/device_work.h"
#include "writer/join/gpu_queue.h"
#include "writer/join/nodes.h"
#include "writer/join/ranges.h"
#include "writer/join/sync_waits.h"
#include "writer/join/window_end.h"
#include "writer/join/work_rows.h"
#include "writer/json/json.h"

static size_t shares_old;     /* kernels that waited for the records after them already */
static struct queue memories; /* allocations and releases that are not added up yet */
static bool forgets;          /* a window was finished since forget_unseen() last ran */
static uint64_t last_end;     /* the latest end of a finished window */

#define MOST_MEMORIES 20000u

/* True also for a record from after the window's end, if a call of the window caused it: it belongs
 * into the call's file. */
static bool is_last_of_caused(const struct gpu_record *r, void *in)
{
    if (join_is_last_chance(in, r))
        return true;
    if (!join_settled || r->correlation == 0)
        return false;
    const struct call *c = correlation_get(correlation_extend(r->correlation), false);
    return c && c->state == CALL_WRITTEN && c->window == join_settled->serial;
}

static void take_wait(const struct gpu_record *r, void *in)
{
    work_take(in, r);
    ((const struct join_windows *)in)->relieve();
}

/* ---- driver memory --------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct gpu_record *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

void join_memory(const struct join_windows *in, uint64_t until)
{
    struct queue now = memories; /* more may come while this is walked */
    if (now.n == 0)
        return;
    memories = (struct queue){0};
    qsort(now.records, now.n, sizeof *now.records, by_time);
    for (size_t i = 0; i < now.n; i++) {
        const struct gpu_record *r = &now.records[i];
        if (join_settled ? is_last_of_caused(r, (void *)(uintptr_t)in) : r->start < until)
            take_wait(r, (void *)(uintptr_t)in);
        else if (!queue_put(&memories, r))
            work_no_room(in, r);
    }
    free(now.records);
}

static void take_memory(const struct join_windows *in, const struct gpu_record *r)
{
    if (memories.n >= MOST_MEMORIES)
        join_memory(in, UINT64_MAX);
    if (!queue_put(&memories, r))
        work_no_room(in, r);
}

/* ---- the public functions -------------------------------------------------------------------- */

void join_take(const struct join_windows *in, const struct gpu_record *r)
{
    switch ((enum gpu_kind)r->kind) {
    case GPU_CALL:
        call_rows_take(in, r);
        break;
    case GPU_EVENT:
        events_note(r, correlation_extend(r->correlation));
        break;
    case GPU_SYNC:
        if (!sync_waits_put(r))
            work_no_room(in, r);
        break;
    case GPU_MEMORY:
        take_memory(in, r);
        break;
    case GPU_OVERHEAD:
        work_take_overhead(in, r);
        break;
    default:
        work_take(in, r);
    }
}

void join_alone(const struct join_windows *in, struct window *w, const struct gpu_record *r)
{
    struct call nobody = {.state = CALL_UNSEEN, .done = true};
    bool work =
        r->kind == GPU_KERNEL || r->kind == GPU_COPY || r->kind == GPU_FILL || r->kind == GPU_GRAPH;
    if (work && window_room(w, in->shared))
        work_row(in, w, &nobody, r, 0);
}

void join_node(const struct record_owner *owner, const struct record *r)
{
    struct timeline *t = timeline_of(owner->tid);
    if (t && r->node.original == 0)
        timeline_add_node(t, r->start);
    struct node_maker maker = {
        .span = r->parent, .transfer = r->id, .module = (uint32_t)record_extra(r, EXTRA_MODULE, 0)};
    collective_stats_captured(r->id);
    struct text name = record_name(r);
    struct note range = {.category = CAT_USER_ANNOTATION};
    if (name.len)
        timeline_name(&range, name, record_data(r), r->data_kind == DATA_ARGS ? r->data_len : 0);
    maker.name = range.name;
    maker.name_len = range.name_len;
    maker.source_len = range.source_len;
    if (r->data_kind == DATA_NODE) {
        struct record_node about;
        memcpy(&about, record_data(r), sizeof about);
        nodes_count(&maker, &about);
    }
    nodes_add(r->node.id, r->node.original, &maker);
}

void join_pass(const struct join_windows *in, bool fresh)
{
    call_rows_retry(in);
    if (!fresh)
        return;
    call_rows_settle_drivers(in, true);
    sync_waits_batch(take_wait, (void *)(uintptr_t)in);
    attribution_settle(shares_old, 0, work_put_share, (void *)(uintptr_t)in);
    shares_old = attribution_waiting();
}

uint64_t join_missing(const struct window *w)
{
    return w->gpu.calls_waiting + w->gpu.launches_waiting;
}

struct settling {
    const struct join_windows *in;
    struct window *w;
    uint64_t missing; /* launches without their kernel */
};

static void put_orphan(struct call *c, const struct gpu_record *r, void *arg)
{
    const struct settling *s = arg;
    (void)c;
    work_orphan(s->in, s->w, r);
}

/* True when the work began before all calls of the window: CUPTI records kernels shortly before
 * calls (cupti/switch.h). False when a hooked call of the window lacks its record, because the work
 * may be of that call. */
static bool before_calls(const struct window *w, const struct call *c)
{
    return c->correlation < w->gpu.first_call && w->gpu.calls_waiting == 0;
}

static void settle_call(struct call *c, void *arg)
{
    struct settling *s = arg;
    bool of_window = c->state == CALL_WRITTEN && c->window == s->w->serial;
    if (of_window && !c->done && c->effect == EFFECT_KERNEL) {
        s->missing++;
        s->w->gpu.launches_waiting--;
    }
    s->w->gpu.graphs_silent += of_window && !c->done && c->effect == EFFECT_GRAPH && !c->brought;
    c->done |= of_window;
    const struct gpu_record *oldest = c->state == CALL_UNSEEN ? calls_oldest(c) : NULL;
    if (!oldest || s->in->at(oldest->start) != s->w)
        return;
    if (before_calls(s->w, c)) { /* not shown, like work of calls outside of windows */
        correlation_drop(c);
        c->state = CALL_FREE; /* should its call come, it counts as late */
        return;
    }
    correlation_release(c, put_orphan, arg);
    c->state = CALL_OUTSIDE; /* should its call come, it gets no row */
    c->done = true;
}

void join_settle(const struct join_windows *in, struct window *w)
{
    struct settling s = {in, w, 0};
    join_settled = w;
    call_rows_retry(in);
    call_rows_settle_drivers(in, false);
    sync_waits_settle(is_last_of_caused, take_wait, (void *)(uintptr_t)in);
    join_memory(in, UINT64_MAX);
    join_settled = NULL;
    correlation_each(settle_call, &s);
    attribution_settle(0, w->serial, work_put_share, (void *)(uintptr_t)in);
    shares_old = attribution_waiting();
    window_end_count(w, s.missing + correlation_given_up());
    if (w->gpu.calls_waiting)
        call_rows_settle_hooks(in, w);
    window_end_annotate(in, w);
    w->lost.n[LOSS_GPU_TABLE] += ranges_refused() + nodes_refused();
    w->lost.n[LOSS_NAMES] += names_refused();
    w->lost.n[LOSS_MEMORY_TABLE] += w->gpu.memory.refused;
}

void join_forget(struct window *w)
{
    correlation_forget(w->serial);
    call_rows_forget_hooks(w);
    ranges_take(w->serial, NULL, NULL);
}

void join_finished(uint64_t end)
{
    last_end = end > last_end ? end : last_end;
    forgets = true;
}

uint64_t join_late(void)
{
    uint64_t n = join_late_records;
    join_late_records = 0;
    return n;
}

static void count_wanted(struct call *c, const struct gpu_record *r, void *n)
{
    (void)c;
    *(uint64_t *)n += !work_may_be_query(r);
}

/* Forgets work from before the last window's end whose call has not come. If it ran in a window, it
 * counts as late. */
static void forget_unseen(struct call *c, void *unused)
{
    (void)unused;
    const struct gpu_record *oldest = c->state == CALL_UNSEEN ? calls_oldest(c) : NULL;
    if (!oldest || oldest->start >= last_end)
        return;
    bool missed = finished_missed(oldest->start);
    uint64_t n = 0;
    correlation_release(c, count_wanted, &n);
    join_late_records += missed ? n : 0;
    c->state = CALL_OUTSIDE;
    c->done = true;
}

void join_idle(void)
{
    timeline_forget();
    if (forgets && correlation_held())
        correlation_each(forget_unseen, NULL);
    forgets = false;
}
