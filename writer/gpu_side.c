/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a window has all that CUPTI delivers for it. */
#include "writer/gpu_side.h"

#include "writer/state_rows.h"
#include "writer/base/base.h"
#include "writer/flight.h"
#include "writer/record/record.h"

#define FLUSH_NS                                                                                   \
    250000000u /* while nothing waits: a kill loses the records that CUPTI collected for so long */
#define DRAIN_NS   15000000u /* while a closed window waits */
#define HELD_NS    60000000000u
#define HURRIED    200u       /* flushes every DRAIN_NS, until the first GPU is known */
#define MANY_CALLS 20000u     /* hooked calls that wait for CUPTI's record */
#define FRESH_NS   300000000u /* after so long without records, waits count as over */
#define SWEEP_NS   1000000000u
#define QUIET_MS   2000 /* time without a record after which missing ones are given up … */
/* … and while CUPTI still has a buffer of that time, in which a kernel may be running. Counted up
 * to the last record of any window. A kernel that spins, as of NVSHMEM, may never end. */
#define IDLE_MS 30000

void gpu_side_step(struct gpu_side *g, enum action begun, bool hold)
{
    /* flush at the next pass, so that the larger buffers may return before the window ends */
    if (begun == ACTION_ACTIVE_AND_SAVE)
        g->flushed_ns = 0;
    g->action = begun;
    if (hold && !g->holding)
        g->held_ns = clock_monotonic_ns();
    g->holding = hold;
}

static enum gpu_want gpu_want_now(const struct gpu_side *g, bool draining)
{
    /* the recorder's kernels are of use when one hangs, which holds its buffer back */
    if (draining || g->action == ACTION_ACTIVE_AND_SAVE || flight_keeps_kernels())
        return GPU_WANT_SOON;
    bool records = (g->action != ACTION_SKIP || g->holding) && !edges_paused();
    return records ? GPU_WANT_ALL : GPU_WANT_NOTHING;
}

/* Not for the flight recorder, which records all the time. A program that marks no step, such as a
 * server, is held for its whole life: then its first minute only. */
static bool watches(const struct gpu_side *g, bool draining)
{
    bool records =
        g->holding ? clock_monotonic_ns() - g->held_ns < HELD_NS : g->action != ACTION_SKIP;
    return g->states && (draining || (records && !edges_paused()));
}

static void watch(struct gpu_side *g, bool draining)
{
    if (!g->states)
        return;
    g->watching = watches(g, draining);
    if (g->states->want(g->watching))
        g->hurried = HURRIED;
}

static bool is_on(const struct gpu_side *g)
{
    return g->source && g->source->calls_since() != UINT64_MAX;
}

void gpu_side_look(struct gpu_side *g, bool draining)
{
    if (!g->source)
        return;
    g->in_use |= is_on(g); /* a kind that is on may be switched off now */
    enum gpu_want want = gpu_want_now(g, draining);
    /* At exit, finish() releases CUPTI after the files are whole: if CUPTI hangs, no file is
     * lost. */
    if (want != GPU_WANT_NOTHING || run_state_now() == WRITER_RUNS)
        g->again_ms = g->source->want(want);
    g->told = want;
    watch(g, draining);
    g->calls_since = g->source->calls_since();
    g->looked = clock_ticks();
}

/* CUPTI may have recorded from the first step to another client's begin before this thread looked
 * once. */
bool gpu_side_span(struct gpu_side *g, struct window *w, const struct record_owner *owner,
                   const struct record *r)
{
    if (!g->source)
        return false;
    bool recorded = g->source->recorded(r->start);
    g->in_use |= recorded;
    return g->in_use && join_span(&g->in, w, owner, r, recorded);
}

void gpu_side_node(struct gpu_side *g, const struct record_owner *owner, const struct record *r)
{
    g->in_use = g->source != NULL;
    join_node(owner, r);
}

int gpu_side_pause_ms(const struct gpu_side *g)
{
    if (is_on(g) || (g->in_use && g->told != gpu_want_now(g, false)) ||
        g->watching != watches(g, false))
        return POLL_MS;
    return g->in_use ? g->again_ms : -1;
}

static double ms_between(uint64_t from, uint64_t to)
{
    return (double)(int64_t)(to - from) * 1e3 / clock_ticks_per_second();
}

static void take_record(const struct gpu_record *r, void *arg)
{
    struct gpu_side *g = arg;
    if (r->start >= g->caught_up) { /* an edge may have been posted just before the record began */
        g->caught_up = clock_ticks();
        g->catch_up();
    }
    flight_work(&g->in, r);
    join_take(&g->in, r);
    g->in.relieve();
}

static void count_faults(struct gpu_side *g, const struct gpu_faults *faults)
{
    const struct {
        enum loss cause;
        uint64_t n;
    } all[] = {{LOSS_GPU_DROPPED, faults->dropped},
               {LOSS_GPU_UNTIMED, faults->untimed},
               {LOSS_GPU_UNFINISHED, faults->unfinished},
               {LOSS_GPU_INVALID, faults->invalid},
               {LOSS_NAMES, faults->unnamed},
               {LOSS_LATE, join_late()}};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].n)
            g->count_loss(all[i].cause, all[i].n);
}

static void collect(struct gpu_side *g, enum gpu_flush flush)
{
    struct gpu_faults faults = {0};
    uint64_t now = clock_monotonic_ns();
    if (flush != GPU_FLUSH_NONE)
        g->flushed_ns = now;
    bool fresh = g->source->collect(flush, take_record, g, &faults) != 0;
    while (flush == GPU_FLUSH_FORCED &&
           g->source->collect(GPU_FLUSH_NONE, take_record, g, &faults) != 0)
        ;
    if (fresh)
        g->came = clock_ticks();
    fresh |= now - g->fresh_ns > FRESH_NS;
    if (fresh)
        g->fresh_ns = now;
    join_pass(&g->in, fresh);
    count_faults(g, &faults);
}

/* A program may make threads during a whole window. Forgets an ended thread once all calls from
 * before the last sweep have come. */
static void forget_threads(struct gpu_side *g)
{
    uint64_t now = clock_monotonic_ns();
    if (now - g->swept_ns < SWEEP_NS || !g->source->returned(g->swept))
        return;
    timeline_sweep();
    g->swept_ns = now;
    g->swept = clock_ticks();
}

static void add_up_memory(struct gpu_side *g)
{
    if (!g->source->returned(g->asked_memory))
        return;
    join_memory(&g->in, g->asked_memory);
    g->asked_memory = clock_ticks();
}

void gpu_side_collect(struct gpu_side *g, bool draining)
{
    if (!g->source)
        return;
    uint64_t since = clock_monotonic_ns() - g->flushed_ns;
    bool hurry = g->watching && g->hurried < HURRIED && since >= DRAIN_NS;
    bool soon = draining || hurry || join_waiting() > MANY_CALLS;
    g->hurried += hurry;
    bool due = since >= (soon ? DRAIN_NS : FLUSH_NS) && g->calls_since != UINT64_MAX;
    collect(g, due ? GPU_FLUSH_PLAIN : GPU_FLUSH_NONE);
    states_collect(g);
    add_up_memory(g);
    forget_threads(g);
}

void gpu_side_idle(struct gpu_side *g)
{
    join_idle();
    bool off = g->source && g->calls_since == UINT64_MAX && g->source->returned(g->looked);
    if (!off || correlation_held() != 0)
        return;
    correlation_pause();
    events_pause();
}

void gpu_side_give_up(struct gpu_side *g)
{
    if (g->source && !g->given_up)
        collect(g, GPU_FLUSH_FORCED);
    g->given_up = true;
}

static bool has_records(const struct gpu_side *g, const struct window *w, bool stopping)
{
    if (g->source->stopped && g->source->stopped())
        return false; /* CUPTI was stopped: the file stays as it is and is not complete */
    if (g->given_up)
        return true;
    if (g->calls_since == UINT64_MAX && g->source->returned(w->end))
        return true; /* CUPTI returns the buffers even when another client ended it */
    uint64_t last = w->gpu.last > w->closed_at ? w->gpu.last : w->closed_at;
    double quiet_ms = ms_between(last, clock_ticks());
    bool returned = g->source->returned(w->end);
    if (join_missing(w) == 0)
        return returned || quiet_ms > (stopping ? QUIET_MS : IDLE_MS);
    return returned ? quiet_ms > QUIET_MS : ms_between(last, g->came) > IDLE_MS;
}

bool gpu_side_complete(const struct gpu_side *g, const struct window *w, bool stopping)
{
    if (!g->source)
        return true;
    bool has_states = !g->states || g->given_up || g->states->returned(w->end);
    return has_records(g, w, stopping) && has_states;
}
