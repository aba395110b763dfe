/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on the device: finds the window of its call, or lets it wait for the call. cprof
 * thread. */
#include "writer/join/device_work.h"

#include "writer/base/base.h"
#include "writer/join/gpu_place.h"
#include "writer/join/work_rows.h"
#include "writer/json/json.h"
#include "writer/sums/sums.h"

uint64_t join_late_records;

void work_count(struct window *w)
{
    w->gpu.records++;
    w->gpu.last = clock_ticks();
}

/* A node is only a part of its graph's work. */
static void work_came(struct window *w, struct call *c)
{
    if (c->effect == EFFECT_KERNEL && !c->done)
        w->gpu.launches_waiting--;
    c->done = c->effect != EFFECT_GRAPH;
    c->brought = true;
}

void work_name_thread(const struct join_windows *in, struct window *w, struct timeline *t)
{
    if (t)
        window_name_thread(w, in->shared, t->tid, t->log ? &t->log->named : &t->named);
}

bool work_may_be_query(const struct gpu_record *r)
{
    return r->kind == GPU_SYNC;
}

void work_orphan(const struct join_windows *in, struct window *w, const struct gpu_record *r)
{
    if (work_may_be_query(r))
        return;
    struct call nobody = {.state = CALL_UNSEEN, .done = true};
    w->lost.n[LOSS_GPU_UNMATCHED] += r->kind != GPU_MEMORY || r->correlation != 0;
    work_count(w);
    if (r->kind == GPU_MEMORY && r->memory.tid) {
        work_name_thread(in, w, timeline_of(r->memory.tid));
        nobody.at = window_place(w, in->shared, r->memory.tid, r->start, r->end);
    }
    work_rows_put(in, w, &nobody, r);
}

/* Writes it into the window of its time. */
static void take_orphan(const struct join_windows *in, const struct gpu_record *r)
{
    struct window *w = in->at(r->start);
    if (w)
        work_orphan(in, w, r);
    else
        join_late_records += finished_missed(r->start);
}

/* True for a graph node that was assigned to a call that launches no graph. "Incorrect correlation
 * IDs for cudaGraphLaunch API calls and their associated kernel launches in profiling sessions
 * after the first session" (release notes of CUPTI 13.1 Update 1, which fixed it). */
static bool has_wrong_call(const struct call *c, const struct gpu_record *r)
{
    return r->graph && r->kind <= GPU_FILL &&
           (c->effect == EFFECT_KERNEL || c->effect == EFFECT_COPY || c->effect == EFFECT_WAIT);
}

void work_put(struct call *c, const struct gpu_record *r, void *arg)
{
    const struct join_windows *in = arg;
    if (has_wrong_call(c, r)) {
        take_orphan(in, r);
        return;
    }
    if (c->state == CALL_OUTSIDE) {
        c->done = c->effect != EFFECT_GRAPH;
        return;
    }
    struct window *w = c->state == CALL_WRITTEN ? in->numbered(c->window) : NULL;
    if (!w) {
        join_late_records++;
        return;
    }
    work_count(w);
    if (r->kind <= GPU_GRAPH && r->kind != GPU_CALL)
        work_came(w, c);
    work_rows_put(in, w, c, r);
}

void work_put_share(struct call *c, const struct gpu_record *r, uint64_t flops, void *arg)
{
    const struct join_windows *in = arg;
    struct window *w = in->numbered(c->window);
    /* the current entry knows whether its arrow was begun */
    struct call *now = correlation_get(c->correlation, false);
    if (w && window_room(w, in->shared))
        work_row(in, w, now && now->window == c->window ? now : c, r, flops);
    in->relieve();
}

void work_no_room(const struct join_windows *in, const struct gpu_record *r)
{
    struct window *w = in->at(r->start);
    if (w)
        w->lost.n[LOSS_GPU_TABLE]++;
}

static void hold_for_call(const struct join_windows *in, struct call *c, const struct gpu_record *r)
{
    if (!correlation_hold(c, r))
        work_no_room(in, r);
}

void work_take(const struct join_windows *in, const struct gpu_record *r)
{
    if (r->correlation == 0) {
        take_orphan(in, r);
        return;
    }
    struct call *c = correlation_get(correlation_extend(r->correlation), true);
    if (!c) {
        work_no_room(in, r);
        return;
    }
    if (c->state == CALL_FREE)
        c->state = CALL_UNSEEN;
    if (c->state < CALL_WRITTEN)
        hold_for_call(in, c, r);
    else
        work_put(c, r, (void *)(uintptr_t)in);
}

void work_take_overhead(const struct join_windows *in, const struct gpu_record *r)
{
    struct window *w = in->at(r->start);
    if (!w || !window_room(w, in->shared))
        return;
    struct json_place at;
    if (!gpu_place(w, in->shared, LANE_OVERHEAD, 0, r->overhead.tid, r, &at))
        return;
    json_gpu_overhead(&w->body, r, &at);
    summary_gpu(window_summary(w, in->shared), r, &at, 0, NULL);
    work_count(w);
    w->events++;
}
