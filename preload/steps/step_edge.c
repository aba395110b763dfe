/* SPDX-License-Identifier: Apache-2.0 */
/* What is switched at the edge of a step: gate, sources, CUPTI. Under the edge's lock. */
#include "preload/steps/step_edge.h"

#include "cupti/gpu_trace.h"
#include "preload/core/core.h"

/* What to record in a step with this action. kept: step 0 of a program that may never mark a
 * step. */
static uint32_t gate_for(enum action next, bool kept, const struct config *c, bool outside)
{
    uint32_t gate = 0;
    if (next >= ACTION_ACTIVE || kept)
        gate |= GATE_SPANS | GATE_RANGES | GATE_MARKERS | (c->profile_memory ? GATE_MEMORY : 0u) |
                (c->activities & CONFIG_ACTIVITY_CUDA ? GATE_CALLS : 0u) |
                (c->with_flops ? GATE_FLOPS : 0u);
    if (next >= ACTION_ACTIVE && c->record_shapes)
        gate |= GATE_SHAPES;
    if (next < ACTION_ACTIVE && kept)
        gate |= GATE_KEPT;
    if (next == ACTION_WARMUP)
        gate |= GATE_MARKERS;
    if (next == ACTION_SKIP && !outside)
        gate |= GATE_SKIPPED;
    if ((gate & ~GATE_SKIPPED) && c->with_stack)
        gate |= GATE_STACKS;
    return gate & GATE_MARKERS ? gate | GATE_WINDOW : gate;
}

/* What the flight recorder keeps in all steps. */
static uint32_t flight_gate(const struct config *c)
{
    unsigned what = c->flight ? c->flight_what : 0;
    uint32_t gate = 0;
    if (what & (FLIGHT_MARKERS | FLIGHT_COLLECTIVES))
        gate |= GATE_RANGES;
    if (what & FLIGHT_MARKERS)
        gate |= GATE_MARKERS;
    if (what & FLIGHT_MEMORY)
        gate |= GATE_MEMORY;
    if (what & FLIGHT_OPERATORS)
        gate |= GATE_SPANS;
    if (what & FLIGHT_CALLS)
        gate |= GATE_CALLS;
    return gate;
}

/* CUPTI may call hooked functions; the guard keeps cprof's own calls out of the trace. */
static void tell_gpu(void (*what)(bool), bool how)
{
    bool entered = guard_enter();
    what(how);
    if (entered)
        guard_leave();
}

void edge_cross(struct step_edge *edge, const struct request *r, const struct config *c,
                bool outside)
{
    static uint64_t last; /* ticks of the newest edge */
    static bool ranked;   /* the rank was refreshed */
    bool over = edge->kind == EDGE_STOP || edge->kind == EDGE_LAST;
    uint32_t always = edge->kind == EDGE_LAST ? 0 : flight_gate(c);
    bool record = edge->begun >= ACTION_ACTIVE || (edge->keep && !over);
    bool recorded = edge->ended >= ACTION_ACTIVE || edge->kept;
    bool operators = always & GATE_SPANS; /* they go on between windows */
    bool same = edge->kept && edge->keep && edge->kind != EDGE_START; /* the kept step goes on */
    uint32_t gate = (over ? 0 : gate_for(edge->begun, edge->keep, c, outside)) | always;
    struct edge_change change = {
        .begins = operators ? edge->kind == EDGE_FIRST : record && !recorded,
        /* torch is not called at exit */
        .ends = !record && recorded && !operators && edge->kind != EDGE_LAST,
        /* the cprof thread does not refresh the rank */
        .ranked = edge->begun >= ACTION_ACTIVE && !ranked && !r->demand,
        .memory = (gate & GATE_MEMORY) && !same &&
                  (!gate_open(GATE_MEMORY) || (edge->kept && !(always & GATE_MEMORY))),
        .stacks = gate & GATE_STACKS,
    };
    if (change.ranked) {
        identity_refresh(); /* programs set RANK themselves before they train */
        ranked = true;
    }
    life_edge_before(&change);
    bool cuda = c->activities & CONFIG_ACTIVITY_CUDA;
    bool use_gpu =
        cuda && !over && (record || edge->begun == ACTION_WARMUP || edge_keeps_kernels(c));
    if (use_gpu)
        tell_gpu(gpu_arm, !r->demand);
    writer_edge_begin();
    edge->ticks = r->ticks ? r->ticks : clock_ticks();
    if (edge->ticks < last) /* two threads can end ranges and mark in the other order */
        edge->ticks = last;
    last = edge->ticks;
    writer_set_gate(gate);
    writer_edge(edge);
    if (cuda && !over && !use_gpu && !r->demand)
        tell_gpu(gpu_edge, edge->kept && edge->ended < ACTION_ACTIVE);
    life_edge_after(&change);
}
