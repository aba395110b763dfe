/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's calls: finds the hooked call and the operator of each, and writes its row. cprof
 * thread. */
#include "writer/join/call_rows.h"

#include <string.h>

#include "writer/base/base.h"
#include "writer/join/attribution.h"
#include "writer/join/device_work.h"
#include "writer/join/gpu_queue.h"
#include "writer/join/ranges.h"
#include "writer/json/json.h"
#include "writer/sums/sums.h"

const struct window *join_settled;

static struct queue unknown; /* calls whose thread's ring is not drained up to their time */
/* driver calls that may be part of a runtime call; the first `drivers_old` came before this
 * batch */
static struct queue drivers;
static size_t drivers_old;
static uint64_t hooks_waiting;

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

bool join_is_last_chance(const struct join_windows *in, const struct gpu_record *r)
{
    const struct window *w = join_settled ? in->at(r->start) : NULL;
    return join_settled && (!w || w == join_settled);
}

/* True when a missing parent may still come. It will not after a second (the ring was full, or the
 * parent began before the window), nor at the window's end, after its rings were drained. */
static bool parent_may_come(const struct join_windows *in, struct timeline *t,
                            const struct gpu_record *r)
{
    return !timeline_is_drained(t) && !join_is_last_chance(in, r) &&
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
    correlation_release(c, work_put, (void *)(uintptr_t)in);
}

/* A launch into a stream that is being captured makes a node instead of a kernel. */
static bool was_captured(const struct caller *who)
{
    return who->thread && timeline_made_node(who->thread, who->start, who->end);
}

/* True when a call causes no work on the device. */
static bool expects_nothing(const struct call *c)
{
    return c->effect == EFFECT_NONE;
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
    work_count(w);
    if (!window_room(w, in->shared))
        return;
    work_name_thread(in, w, who->thread);
    uint32_t stack = who->hook ? who->hook->stack : 0;
    stacks_use(&w->stacks, stack);
    json_gpu_call(&w->body, r, &c->at, who->external, stack);
    summary_gpu(window_summary(w, in->shared), r, &c->at, who->external, NULL);
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
    join_late_records += missed && !who->shown;
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

void call_rows_take(const struct join_windows *in, const struct gpu_record *r)
{
    struct call *c = correlation_get(correlation_extend(r->correlation), true);
    if (!c) {
        work_no_room(in, r);
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
            work_no_room(in, r);
        return;
    }
    if (may_be_part(r, &who) && queue_put(&drivers, r)) {
        c->state = CALL_DRIVER;
        return;
    }
    finish_call(in, c, r, &who);
}

void call_rows_settle_drivers(const struct join_windows *in, bool waited)
{
    size_t kept = 0, n = waited ? drivers_old : 0;
    for (size_t i = 0; i < drivers.n; i++) {
        const struct gpu_record *r = &drivers.records[i];
        struct call *c = correlation_get(correlation_extend(r->correlation), false);
        struct caller who;
        if (!c || c->state != CALL_DRIVER)
            continue;
        bool last = join_is_last_chance(in, r);
        bool wait = (i >= n && !last) || !find_caller(in, r, &who) || (who.inside && !last);
        if (wait)
            drivers.records[kept++] = *r;
        else
            finish_call(in, c, r, &who);
        in->relieve();
    }
    drivers.n = drivers_old = kept;
}

void call_rows_retry(const struct join_windows *in)
{
    static struct queue again; /* swapped with `unknown`, to reuse its memory */
    struct queue now = unknown;
    unknown = again;
    unknown.n = 0;
    for (size_t i = 0; i < now.n; i++) {
        call_rows_take(in, &now.records[i]);
        in->relieve();
    }
    again = now;
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
    work_name_thread(in, w, t);
    stacks_use(&w->stacks, hook->stack);
    json_gpu_call(&w->body, &r, &at, hook->parent, hook->stack);
    summary_gpu(window_summary(w, in->shared), &r, &at, hook->parent, NULL);
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
        bool args = r->data_kind == DATA_ARGS;
        timeline_name(n, record_name(r), args ? record_data(r) : NULL, args ? r->data_len : 0);
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

uint64_t join_waiting(void)
{
    return hooks_waiting;
}

void call_rows_settle_hooks(const struct join_windows *in, struct window *w)
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

void call_rows_forget_hooks(struct window *w)
{
    for (struct timeline *t = timeline_first(); t; t = t->next) {
        struct note *n;
        for (uint64_t at = 0; t->calls_waiting && (n = timeline_note(t, &at)); at++)
            if (n->state == NOTE_CALL && n->start >= w->start && n->start < w->end)
                hook_written(w, t, n);
    }
}
