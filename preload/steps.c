/* SPDX-License-Identifier: Apache-2.0 */
/* The step counter and what happens at its edges. Application threads; the edge itself is guarded by a spin lock, because steps are
 * rare and the holder does next to nothing. */
#include "preload/steps.h"

#include <sched.h>
#include <stdatomic.h>

#include "cupti/gpu_trace.h"
#include "preload/guard.h"
#include "preload/identity.h"
#include "preload/init.h"
#include "preload/schedule.h"
#include "preload/torch.h"
#include "writer/writer.h"

#define EXIT_WAIT_NS 50000000u /* many times what an edge takes */

static atomic_flag edge_lock = ATOMIC_FLAG_INIT;

/* Under edge_lock; the atomic ones are also read without it. */
static struct schedule schedule;
static const struct config *_Atomic config; /* set once; NULL while cprof sleeps */
static _Atomic int64_t step;
static _Atomic int action;
static _Atomic bool keep;
static bool running, ranked;
static uint64_t started_ns, step_ns;

static _Atomic bool called; /* cprof_step() was used */

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&edge_lock, memory_order_acquire))
        sched_yield();
}

/* At exit: a signal handler that calls _exit may have interrupted the holder, for which there is no waiting. */
static bool lock_for_exit(void)
{
    uint64_t end = clock_monotonic_ns() + EXIT_WAIT_NS;
    while (atomic_flag_test_and_set_explicit(&edge_lock, memory_order_acquire)) {
        if (clock_monotonic_ns() > end)
            return false;
        sched_yield();
    }
    return true;
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&edge_lock, memory_order_release);
}

/* What is recorded in a step with this action. kept: step 0 that may become the trace of a program without marks. */
static uint32_t gate_for(enum action next, bool kept)
{
    const struct config *c = config;
    uint32_t gate = 0;
    if (next >= ACTION_ACTIVE || kept)
        gate |= GATE_SPANS | GATE_MARKERS | (c->profile_memory ? GATE_MEMORY : 0u) |
                (c->activities & CONFIG_ACTIVITY_CUDA ? GATE_CALLS : 0u);
    if (next >= ACTION_ACTIVE && c->record_shapes)
        gate |= GATE_SHAPES;
    if (next == ACTION_WARMUP)
        gate |= GATE_MARKERS;
    return gate;
}

static struct train_time time_at(uint64_t now_ns)
{
    struct train_time t = {0};
    t.batch = t.batch_in_epoch = atomic_load(&step);
    t.total_wct = t.epoch_wct = (int64_t)((now_ns - started_ns) / 1000000000u);
    t.batch_wct = (int64_t)((now_ns - step_ns) / 1000000000u);
    return t;
}

/* CUPTI may come back through hooked calls. */
static void arm_gpu(void)
{
    bool entered = guard_enter();
    gpu_arm();
    if (entered)
        guard_leave();
}

/* The edge. Sources that are to be on in the next step are switched on before its first instant, so that it is whole; those that are
 * to be off are switched off after it. */
static void cross(struct step_edge *edge, uint64_t ticks)
{
    bool record = edge->begun >= ACTION_ACTIVE || (edge->keep && !edge->last);
    bool recorded = edge->ended >= ACTION_ACTIVE || keep;
    if (edge->begun >= ACTION_ACTIVE && !ranked) {
        identity_refresh(); /* programs set RANK themselves, before they train */
        ranked = true;
    }
    if (record && !recorded)
        torch_operators(true);
    if (record && (config->activities & CONFIG_ACTIVITY_CUDA))
        arm_gpu();
    writer_edge_begin();
    uint32_t gate = edge->last ? 0 : gate_for(edge->begun, edge->keep);
    if ((gate & GATE_MEMORY) && (!gate_open(GATE_MEMORY) || keep))
        torch_memory_restart();
    uint64_t now_ns = clock_monotonic_ns();
    edge->ticks = ticks ? ticks : clock_ticks();
    edge->time = time_at(now_ns);
    step_ns = now_ns;
    writer_set_gate(gate);
    writer_edge(edge);
    if (!record && recorded && !edge->last) /* at exit torch must not be called any more */
        torch_operators(false);
}

void steps_start(const struct config *given, bool keep_unmarked)
{
    lock();
    config = given;
    schedule = (struct schedule){.skip_first = given->skip_first,
                                 .wait = given->wait,
                                 .warmup = given->warmup,
                                 .active = given->active,
                                 .repeat = given->repeat,
                                 .skip_first_wait = given->skip_first_wait,
                                 .scope = (enum schedule_scope)given->schedule_scope};
    char text[256];
    schedule_describe(&schedule, text, sizeof text);
    log_debug("schedule: %s", text);
    started_ns = step_ns = clock_monotonic_ns();
    enum action first = schedule_action(&schedule, 0);
    atomic_store(&action, (int)first);
    bool hold = keep_unmarked && first < ACTION_ACTIVE;
    struct step_edge edge = {
        .step = 0, .ended = ACTION_SKIP, .begun = first, .first = true, .keep = hold};
    if ((first != ACTION_SKIP || hold) && !writer_run())
        hold = edge.keep = false;
    cross(&edge, 0);
    keep = hold;
    running = true;
    unlock();
}

bool steps_listen_to(enum step_source source)
{
    if (source == STEP_CALL)
        return true;
    const struct config *c = config;
    if (!c || atomic_load_explicit(&called, memory_order_relaxed))
        return false;
    return (source == STEP_OPTIMIZER && c->step == CONFIG_STEP_AUTO) ||
           (source == STEP_DATALOADER && c->step == CONFIG_STEP_DATALOADER) ||
           (source == STEP_FORWARD && c->step == CONFIG_STEP_FORWARD) ||
           (source == STEP_NVTX && c->step == CONFIG_STEP_NVTX);
}

void steps_mark(enum step_source source, uint64_t ticks)
{
    if (atomic_load(&cprof_life) == LIFE_OVER)
        return; /* in a forked child the lock may be held by a thread that is not there */
    if (source == STEP_CALL)
        atomic_store(&called, true);
    lock();
    if (running && steps_listen_to(source)) {
        int64_t next = atomic_load(&step) + 1;
        struct step_edge edge = {.step = next,
                                 .ended = (enum action)atomic_load(&action),
                                 .begun = schedule_action(&schedule, next)};
        atomic_store(&step, next);
        atomic_store(&action, (int)edge.begun);
        if (edge.begun == ACTION_SKIP || writer_run())
            cross(&edge, ticks);
        keep = false;
    }
    unlock();
}

int64_t steps_current(void)
{
    return atomic_load_explicit(&step, memory_order_relaxed);
}

enum action steps_action(void)
{
    return (enum action)atomic_load_explicit(&action, memory_order_relaxed);
}

bool steps_want_gpu(void)
{
    return steps_action() != ACTION_SKIP || atomic_load_explicit(&keep, memory_order_relaxed);
}

void steps_finish(void)
{
    if (!lock_for_exit())
        return;
    if (running) {
        struct step_edge edge = {.step = atomic_load(&step),
                                 .ended = (enum action)atomic_load(&action),
                                 .begun = ACTION_SKIP,
                                 .last = true,
                                 .keep = keep && !identity_ranks_wrote()};
        cross(&edge, 0);
        atomic_store(&action, ACTION_SKIP);
        running = false;
    }
    unlock();
}
