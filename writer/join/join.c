/* SPDX-License-Identifier: Apache-2.0 */
/* Joins CUPTI's records with hooked calls and operators. */
#include "writer/join/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer/join/correlation.h"
#include "writer/json/json.h"
#include "writer/join/events.h"
#include "writer/window/window.h"
#include "writer/join/gpu_place.h"
#include "writer/join/gpu_queue.h"
#include "writer/base/base.h"
#include "writer/join/nodes.h"
#include "writer/join/ranges.h"
#include "writer/join/attribution.h"
#include "writer/join/sync_waits.h"
#include "writer/join/timeline.h"
#include "writer/sums/sums.h"
#include "writer/join/window_end.h"
#include "writer/join/work_rows.h"

static struct queue unknown; /* calls whose thread's ring is not drained up to their time */
/* driver calls that may be part of a runtime call; the first `drivers_old` came before this
 * batch */
static struct queue drivers;
static size_t drivers_old, shares_old;
static struct queue memories; /* allocations and releases that are not added up yet */
static bool forgets;          /* a window was finished since forget_unseen() last ran */
static uint64_t last_end;     /* the latest end of a finished window */
static uint64_t late, hooks_waiting;
static const struct window *settled; /* the window that is being finished; NULL: none */

#define MOST_MEMORIES 20000u

static void count_gpu_record(struct window *w)
{
    w->gpu.records++;
    w->gpu.last = clock_ticks();
}

/* ---- what runs on the device ----------------------------------------------------------------- */

/* A node is only a part of its graph's work. */
static void work_came(struct window *w, struct call *c)
{
    if (c->effect == EFFECT_KERNEL && !c->done)
        w->gpu.launches_waiting--;
    c->done = c->effect != EFFECT_GRAPH;
    c->brought = true;
}

/* True when a call causes no work on the device. */
static bool expects_nothing(const struct call *c)
{
    return c->effect == EFFECT_NONE;
}

static void name_thread(const struct join_windows *in, struct window *w, struct timeline *t)
{
    if (t)
        window_name_thread(w, in->shared, t->tid, t->log ? &t->log->named : &t->named);
}

/* CUPTI reports a cudaEventQuery or cudaStreamQuery that found all work done as a wait ("event
 * query and stream query records via CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", cupti_activity.h). These
 * calls are not shown (cupti/calls.def), so nothing is lost. */
static bool may_be_query(const struct gpu_record *r)
{
    return r->kind == GPU_SYNC;
}

/* Writes a record without its call: a kernel in its stream's row, an allocation in its thread's.
 * Not counted for the variables of a module, which no call allocates. */
static void write_orphan(const struct join_windows *in, struct window *w,
                         const struct gpu_record *r)
{
    if (may_be_query(r))
        return;
    struct call nobody = {.state = CALL_UNSEEN, .done = true};
    w->lost.n[LOSS_GPU_UNMATCHED] += r->kind != GPU_MEMORY || r->correlation != 0;
    count_gpu_record(w);
    if (r->kind == GPU_MEMORY && r->memory.tid) {
        name_thread(in, w, timeline_of(r->memory.tid));
        nobody.at = window_place(w, in->shared, r->memory.tid, r->start, r->end);
    }
    work_rows_put(in, w, &nobody, r);
}

/* Writes it into the window of its time. */
static void take_orphan(const struct join_windows *in, const struct gpu_record *r)
{
    struct window *w = in->at(r->start);
    if (w)
        write_orphan(in, w, r);
    else
        late += finished_missed(r->start);
}

/* True for a graph node that was assigned to a call that launches no graph. "Incorrect correlation
 * IDs for cudaGraphLaunch API calls and their associated kernel launches in profiling sessions
 * after the first session" (release notes of CUPTI 13.1 Update 1, which fixed it). */
static bool has_wrong_call(const struct call *c, const struct gpu_record *r)
{
    return r->graph && r->kind <= GPU_FILL &&
           (c->effect == EFFECT_KERNEL || c->effect == EFFECT_COPY || c->effect == EFFECT_WAIT);
}

/* Writes a record of a known call into the call's file. */
static void put_caused(struct call *c, const struct gpu_record *r, void *arg)
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
        late++;
        return;
    }
    count_gpu_record(w);
    if (r->kind <= GPU_GRAPH && r->kind != GPU_CALL)
        work_came(w, c);
    work_rows_put(in, w, c, r);
}

/* Writes a kernel that waited for the records after it. */
static void put_share(struct call *c, const struct gpu_record *r, uint64_t flops, void *arg)
{
    const struct join_windows *in = arg;
    struct window *w = in->numbered(c->window);
    /* the current entry knows whether its arrow was begun */
    struct call *now = correlation_get(c->correlation, false);
    if (w && window_room(w, in->shared))
        work_row(in, w, now && now->window == c->window ? now : c, r, flops);
    in->relieve();
}

/* Counts a record for which there was no room or no memory. */
static void count_no_room(const struct join_windows *in, const struct gpu_record *r)
{
    struct window *w = in->at(r->start);
    if (w)
        w->lost.n[LOSS_GPU_TABLE]++;
}

static void hold_for_call(const struct join_windows *in, struct call *c, const struct gpu_record *r)
{
    if (!correlation_hold(c, r))
        count_no_room(in, r);
}

/* Takes a record that a call caused. It is written where the call is, or waits for the call. Its id
 * is 0 when CUPTI records no calls. */
static void take_caused(const struct join_windows *in, const struct gpu_record *r)
{
    if (r->correlation == 0) {
        take_orphan(in, r);
        return;
    }
    struct call *c = correlation_get(correlation_extend(r->correlation), true);
    if (!c) {
        count_no_room(in, r);
        return;
    }
    if (c->state == CALL_FREE)
        c->state = CALL_UNSEEN;
    if (c->state < CALL_WRITTEN)
        hold_for_call(in, c, r);
    else
        put_caused(c, r, (void *)(uintptr_t)in);
}

static void take_overhead(const struct join_windows *in, const struct gpu_record *r)
{
    struct window *w = in->at(r->start);
    if (!w || !window_room(w, in->shared))
        return;
    struct json_place at;
    if (!gpu_place(w, in->shared, LANE_OVERHEAD, 0, r->overhead.tid, r, &at))
        return;
    json_gpu_overhead(&w->body, r, &at);
    top_gpu(window_top(w, in->shared), r, &at, 0);
    count_gpu_record(w);
    w->events++;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The maker of a call, and the place of its row. */
struct caller {
    struct timeline *thread;
    struct note *hook; /* the hooked call that this call is, or NULL */
    /* made inside a hooked call of another name, whose record has not come */
    bool inside;
    bool shown;          /* its hooked call already has a row, written without CUPTI's record */
    uint64_t innermost;  /* id of the innermost span around it */
    uint64_t external;   /* the trace's `External id` */
    uint64_t collective; /* id of the communication library's call around it; 0: none */
    uint32_t range;
    uint64_t start, end; /* ticks of its row */
};

static bool same_name(const struct note *n, const struct gpu_record *r)
{
    return n->name && n->name_len == r->name_len && memcmp(n->name, r->name, r->name_len) == 0;
}

static bool is_call(const struct note *n)
{
    return n->category == CAT_CUDA_RUNTIME || n->category == CAT_CUDA_DRIVER;
}

/* Fits the row of an unhooked call between the rows that its thread already has: CUPTI's clock may
 * differ from ours by some 100 ns. */
static void fit_between_rows(struct caller *who, const struct moment *m, const struct note *around)
{
    uint64_t low = m->before, high = m->after;
    if (around && around->start > low)
        low = around->start;
    if (around && around->end < high)
        high = around->end;
    who->start = who->start < low ? low : who->start;
    who->end = who->end > high ? high : who->end;
    if (who->end < who->start)
        who->end = who->start;
}

/* Finds the spans around a call; n is the innermost. `External id` names an operator, because
 * readers expect one; without an operator, the innermost range, then the library call. The
 * communication library's call may be several ranges out: NCCL marks each of its calls by NVTX. */
static void find_spans(struct caller *who, struct note *n)
{
    struct note above;
    uint64_t library = n->category == CAT_LIBRARY ? n->id : 0, range = 0;
    who->innermost = n->id;
    who->range = ranges_of(who->thread, n);
    for (; n && !who->external; n = timeline_span(who->thread, n->parent, &above)) {
        if (n->category == CAT_CPU_OP)
            who->external = n->id;
        else if (n->category == CAT_COLLECTIVE)
            who->collective = who->collective ? who->collective : n->id;
        else if (n->category == CAT_USER_ANNOTATION)
            range = range ? range : n->id;
    }
    if (!who->external)
        who->external = range ? range : library;
}

/* True when a span above this one is neither known nor open. It has probably ended during CUPTI's
 * flush, which takes milliseconds, and is in the ring. Stops at a note whose ranges are known. */
static bool lacks_parent(struct timeline *t, struct note *n)
{
    struct note above[2];
    for (unsigned i = 0; n->parent && n->range == RANGE_UNKNOWN; i ^= 1) {
        n = timeline_span(t, n->parent, &above[i]);
        if (!n)
            return true;
    }
    return false;
}

/* True when the record must be written now, because its window is being finished. Records of other
 * open windows can wait. */
static bool is_last_chance(const struct join_windows *in, const struct gpu_record *r)
{
    const struct window *w = settled ? in->at(r->start) : NULL;
    return settled && (!w || w == settled);
}

/* True also for a record from after the window's end, if a call of the window caused it: it belongs
 * into the call's file. */
static bool is_last_of_caused(const struct gpu_record *r, void *in)
{
    if (is_last_chance(in, r))
        return true;
    if (!settled || r->correlation == 0)
        return false;
    const struct call *c = correlation_get(correlation_extend(r->correlation), false);
    return c && c->state == CALL_WRITTEN && c->window == settled->serial;
}

/* True when a missing parent may still come. It will not after a second (the ring was full, or the
 * parent began before the window), nor at the window's end, after its rings were drained. */
static bool parent_may_come(const struct join_windows *in, struct timeline *t,
                            const struct gpu_record *r)
{
    return !timeline_is_drained(t) && !is_last_chance(in, r) &&
           (double)(int64_t)(clock_ticks() - r->end) < clock_ticks_per_second();
}

/* Finds what made a call. False: not yet, the thread's ring may still hold the hooked call or the
 * operator. */
static bool find_caller(const struct join_windows *in, const struct gpu_record *r,
                        struct caller *who)
{
    *who = (struct caller){.start = r->start, .end = r->end};
    who->thread = timeline_of(r->call.tid);
    if (!who->thread)
        return true;
    if (!timeline_knows(who->thread, r->end))
        return false;
    struct moment m;
    struct note *around = NULL, above;
    if (timeline_at(who->thread, r->start + (r->end - r->start) / 2, &m))
        around = m.note ? m.note : &m.open;
    bool lost = m.lost || (around && lacks_parent(who->thread, around));
    if (lost && parent_may_come(in, who->thread, r))
        return false;
    if (around && is_call(around) && around->state == NOTE_CALL && same_name(around, r)) {
        who->hook = around;
        who->start = around->start;
        who->end = around->end;
    } else {
        who->inside = around && is_call(around) && around->state == NOTE_CALL;
        who->shown = around && is_call(around) && !who->inside && same_name(around, r);
        fit_between_rows(who, &m, around);
    }
    if (around && is_call(around)) /* look for the operator above the hooked call */
        around = timeline_span(who->thread, around->parent, &above);
    if (around)
        find_spans(who, around);
    return true;
}

static void release(const struct join_windows *in, struct call *c)
{
    correlation_release(c, put_caused, (void *)(uintptr_t)in);
}

/* A launch into a stream that is being captured makes a node instead of a kernel. */
static bool was_captured(const struct caller *who)
{
    return who->thread && timeline_made_node(who->thread, who->start, who->end);
}

/* The hooked call has its row now. */
static void hook_written(struct window *w, struct timeline *t, struct note *hook)
{
    hook->state = NOTE_SPAN;
    hooks_waiting--;
    t->calls_waiting--;
    w->gpu.calls_waiting--;
}

static void write_call(const struct join_windows *in, struct window *w, struct call *c,
                       const struct gpu_record *r, const struct caller *who)
{
    c->state = CALL_WRITTEN;
    c->window = w->serial;
    if (w->gpu.first_call == 0 || c->correlation < w->gpu.first_call)
        w->gpu.first_call = c->correlation;
    c->external = who->external;
    c->collective = who->collective;
    c->range = who->range;
    c->at = window_place(w, in->shared, r->call.tid, who->start, who->end);
    c->counted = 0;
    if (c->effect == EFFECT_KERNEL) {
        w->gpu.launches_waiting++;
        c->counted = who->thread ? attribution_launch(who->thread, who->innermost) : 0;
    }
    w->gpu.graphs += c->effect == EFFECT_GRAPH;
    if (who->hook)
        hook_written(w, who->thread, who->hook);
    count_gpu_record(w);
    if (!window_room(w, in->shared))
        return;
    name_thread(in, w, who->thread);
    uint32_t stack = who->hook ? who->hook->stack : 0;
    stacks_use(&w->stacks, stack);
    json_gpu_call(&w->body, r, &c->at, who->external, stack);
    top_gpu(window_top(w, in->shared), r, &c->at, who->external);
    if (who->end > w->latest)
        w->latest = who->end;
    w->events++;
}

static void finish_call(const struct join_windows *in, struct call *c, const struct gpu_record *r,
                        const struct caller *who)
{
    struct window *w = in->at(who->start);
    c->effect = r->flags & GPU_FAILED || was_captured(who) ? EFFECT_NONE : r->call.effect;
    c->done = expects_nothing(c);
    bool missed = !w && finished_missed(who->start);
    c->state = missed ? CALL_LATE : CALL_OUTSIDE;
    late += missed && !who->shown;
    if (w)
        write_call(in, w, c, r, who);
    release(in, c);
}

/* A driver call without a hook: it gets no row when a runtime call with the same id comes. */
static bool may_be_part(const struct gpu_record *r, const struct caller *who)
{
    return (r->flags & GPU_DRIVER) && !who->hook;
}

/* Of several driver calls with one id, keeps the one that caused work. */
static void prefer_effect(const struct gpu_record *r)
{
    size_t i = drivers.n;
    while (i > 0 && drivers.records[i - 1].correlation != r->correlation)
        i--;
    if (i > 0 && drivers.records[i - 1].call.effect == EFFECT_NONE)
        drivers.records[i - 1] = *r;
}

static void take_call(const struct join_windows *in, const struct gpu_record *r)
{
    struct call *c = correlation_get(correlation_extend(r->correlation), true);
    if (!c) {
        count_no_room(in, r);
        return;
    }
    if (c->state >= CALL_WRITTEN)
        return; /* one row per correlation id */
    if (c->state == CALL_DRIVER && (r->flags & GPU_DRIVER)) {
        prefer_effect(r);
        return;
    }
    struct caller who;
    if (!find_caller(in, r, &who)) {
        if (c->state == CALL_FREE)
            c->state = CALL_UNSEEN;
        if (!queue_put(&unknown, r))
            count_no_room(in, r);
        return;
    }
    if (may_be_part(r, &who) && queue_put(&drivers, r)) {
        c->state = CALL_DRIVER;
        return;
    }
    finish_call(in, c, r, &who);
}

/* Writes driver calls that no runtime call has claimed: the first n, and those whose window is
 * being finished. */
static void settle_drivers(const struct join_windows *in, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < drivers.n; i++) {
        const struct gpu_record *r = &drivers.records[i];
        struct call *c = correlation_get(correlation_extend(r->correlation), false);
        struct caller who;
        if (!c || c->state != CALL_DRIVER)
            continue;
        bool last = is_last_chance(in, r);
        bool wait = (i >= n && !last) || !find_caller(in, r, &who) || (who.inside && !last);
        if (wait)
            drivers.records[kept++] = *r;
        else
            finish_call(in, c, r, &who);
        in->relieve();
    }
    drivers.n = drivers_old = kept;
}

static void retry_unknown(const struct join_windows *in)
{
    static struct queue again; /* swapped with `unknown`, to reuse its memory */
    struct queue now = unknown;
    unknown = again;
    unknown.n = 0;
    for (size_t i = 0; i < now.n; i++) {
        take_call(in, &now.records[i]);
        in->relieve();
    }
    again = now;
}

static void take_wait(const struct gpu_record *r, void *in)
{
    take_caused(in, r);
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
        if (settled ? is_last_of_caused(r, (void *)(uintptr_t)in) : r->start < until)
            take_wait(r, (void *)(uintptr_t)in);
        else if (!queue_put(&memories, r))
            count_no_room(in, r);
    }
    free(now.records);
}

static void take_memory(const struct join_windows *in, const struct gpu_record *r)
{
    if (memories.n >= MOST_MEMORIES)
        join_memory(in, UINT64_MAX);
    if (!queue_put(&memories, r))
        count_no_room(in, r);
}

/* ---- the public functions -------------------------------------------------------------------- */

void join_take(const struct join_windows *in, const struct gpu_record *r)
{
    switch ((enum gpu_kind)r->kind) {
    case GPU_CALL:
        take_call(in, r);
        break;
    case GPU_EVENT:
        events_note(r, correlation_extend(r->correlation));
        break;
    case GPU_SYNC:
        if (!sync_waits_put(r))
            count_no_room(in, r);
        break;
    case GPU_MEMORY:
        take_memory(in, r);
        break;
    case GPU_OVERHEAD:
        take_overhead(in, r);
        break;
    default:
        take_caused(in, r);
    }
}

/* Writes a hooked call for which CUPTI has no record; its row has no correlation. */
static void write_hook(const struct join_windows *in, struct window *w, struct timeline *t,
                       struct note *hook)
{
    hook_written(w, t, hook);
    w->lost.n[LOSS_GPU_NO_CALL]++;
    if (!window_room(w, in->shared))
        return;
    struct json_place at = window_place(w, in->shared, t->tid, hook->start, hook->end);
    struct gpu_record r = {.kind = GPU_CALL,
                           .flags = hook->category == CAT_CUDA_DRIVER ? GPU_DRIVER : 0,
                           .name = hook->name,
                           .name_len = (uint16_t)hook->name_len};
    name_thread(in, w, t);
    stacks_use(&w->stacks, hook->stack);
    json_gpu_call(&w->body, &r, &at, hook->parent, hook->stack);
    top_gpu(window_top(w, in->shared), &r, &at, hook->parent);
    w->events++;
}

bool join_span(const struct join_windows *in, struct window *w, const struct record_owner *owner,
               const struct record *r, bool reported)
{
    struct timeline *t = timeline_of(owner->tid);
    if (!t)
        return false;
    struct note *gone = timeline_oldest(t);
    if (gone && gone->state == NOTE_CALL) {
        struct window *its = in->at(gone->start);
        if (its)
            write_hook(in, its, t, gone);
    }
    struct note *n = timeline_add(t, r);
    collective_stats_note(r);
    if (r->category != CAT_CPU_OP) {
        struct text name = record_name(r);
        n->name = names_keep(name.at, name.len);
        n->name_len = n->name ? name.len : 0;
    }
    if (!is_call(n) || !reported || !n->name || (r->flags & REC_UNFINISHED))
        return false;
    n->state = NOTE_CALL;
    hooks_waiting++;
    t->calls_waiting++;
    w->gpu.calls_waiting++;
    w->gpu.last = clock_ticks();
    return true;
}

void join_node(const struct record_owner *owner, const struct record *r)
{
    struct timeline *t = timeline_of(owner->tid);
    if (t && r->node.original == 0)
        timeline_add_node(t, r->start);
    struct node_maker maker = {.span = r->parent, .transfer = r->id};
    collective_stats_captured(r->id);
    struct text name = record_name(r);
    if (name.len) {
        maker.name = names_keep(name.at, name.len);
        maker.name_len = maker.name ? name.len : 0;
    }
    if (r->data_kind == DATA_NODE) {
        struct record_node about;
        memcpy(&about, record_data(r), sizeof about);
        nodes_count(&maker, &about);
    }
    nodes_add(r->node.id, r->node.original, &maker);
}

void join_pass(const struct join_windows *in, bool fresh)
{
    timeline_new_pass();
    retry_unknown(in);
    if (!fresh)
        return;
    settle_drivers(in, drivers_old);
    sync_waits_batch(take_wait, (void *)(uintptr_t)in);
    attribution_settle(shares_old, 0, put_share, (void *)(uintptr_t)in);
    shares_old = attribution_waiting();
}

uint64_t join_missing(const struct window *w)
{
    return w->gpu.calls_waiting + w->gpu.launches_waiting;
}

uint64_t join_waiting(void)
{
    return hooks_waiting;
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
    write_orphan(s->in, s->w, r);
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

static void settle_hooks(const struct join_windows *in, struct window *w)
{
    for (struct timeline *t = timeline_first(); t; t = t->next) {
        struct note *n;
        for (uint64_t at = 0; t->calls_waiting && (n = timeline_note(t, &at)); at++)
            if (n->state == NOTE_CALL && in->at(n->start) == w) {
                write_hook(in, w, t, n);
                in->relieve();
            }
    }
}

void join_settle(const struct join_windows *in, struct window *w)
{
    struct settling s = {in, w, 0};
    settled = w;
    retry_unknown(in);
    settle_drivers(in, 0);
    sync_waits_settle(is_last_of_caused, take_wait, (void *)(uintptr_t)in);
    join_memory(in, UINT64_MAX);
    settled = NULL;
    correlation_each(settle_call, &s);
    attribution_settle(0, w->serial, put_share, (void *)(uintptr_t)in);
    shares_old = attribution_waiting();
    window_end_count(w, s.missing + correlation_given_up());
    if (w->gpu.calls_waiting)
        settle_hooks(in, w);
    window_end_annotate(in, w);
    w->lost.n[LOSS_GPU_TABLE] += ranges_refused() + nodes_refused();
    w->lost.n[LOSS_NAMES] += names_refused();
    w->lost.n[LOSS_MEMORY_TABLE] += w->gpu.memory.refused;
}

/* Another window may have markers of the same time, so hooks are found by time. */
static void forget_hooks(struct window *w)
{
    for (struct timeline *t = timeline_first(); t; t = t->next) {
        struct note *n;
        for (uint64_t at = 0; t->calls_waiting && (n = timeline_note(t, &at)); at++)
            if (n->state == NOTE_CALL && n->start >= w->start && n->start < w->end)
                hook_written(w, t, n);
    }
}

void join_forget(struct window *w)
{
    correlation_forget(w->serial);
    forget_hooks(w);
    ranges_take(w->serial, NULL, NULL);
}

void join_finished(uint64_t end)
{
    last_end = end > last_end ? end : last_end;
    forgets = true;
}

uint64_t join_late(void)
{
    uint64_t n = late;
    late = 0;
    return n;
}

static void count_wanted(struct call *c, const struct gpu_record *r, void *n)
{
    (void)c;
    *(uint64_t *)n += !may_be_query(r);
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
    late += missed ? n : 0;
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
