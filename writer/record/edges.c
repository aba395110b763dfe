/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of step edges, and the state that turns recording off. */
#include "writer/record/edges.h"
#include "writer/writer.h"

#include <errno.h>
#include <sched.h>

#include "writer/base/base.h"
#include "writer/record/listener.h"
#include "writer/record/loss.h"

#define EDGES        4096u /* most edges that are posted and not taken; a power of two */
#define POST_YIELDS  1000u
#define POST_MOST_NS 2000000000u /* ns to wait for an announced edge */

static struct step_edge edges[EDGES];
/* stepping thread adds before it reads the clock; cprof thread reads */
static _Atomic uint64_t edges_announced;
/* stepping thread adds (release) after filling; cprof thread reads */
static _Atomic uint64_t edges_posted;
/* cprof thread adds; stepping thread reads to see a full queue */
static _Atomic uint64_t edges_taken;
/* Whether cprof records. The stepping thread sets BEHIND when the queue is full. The cprof thread
 * then sets CAUGHT_UP, and the next edge GOES_ON. Any thread sets STOPPED, for good. */
static _Atomic int state;
enum { GOES_ON, BEHIND, CAUGHT_UP, STOPPED };
static bool (*run)(void); /* starts the cprof thread if it does not run; NULL in tests */
static bool all_wanted;   /* of the idle steps, too; constant after the start */
static bool cut;          /* edges before the next one are missing; stepping thread */
/* refused edges at which recording changes; stepping thread adds, cprof thread takes */
static _Atomic uint64_t missed;

void edges_start(bool (*start)(void))
{
    run = start;
}

void edges_want_all(void)
{
    all_wanted = true;
}

void edges_stop(void)
{
    atomic_store(&state, STOPPED);
    atomic_store(&writer_gate, 0);
}

bool writer_is_off(void)
{
    return atomic_load(&state) == STOPPED;
}

bool edges_paused(void)
{
    return atomic_load(&state) != GOES_ON;
}

static bool leave_state(int from, int to)
{
    return atomic_compare_exchange_strong(&state, &from, to);
}

uint64_t edges_missed(void)
{
    return atomic_load_explicit(&missed, memory_order_relaxed)
               ? atomic_exchange_explicit(&missed, 0, memory_order_relaxed)
               : 0;
}

void edges_caught_up(void)
{
    leave_state(BEHIND, CAUGHT_UP);
}

void writer_wake(void)
{
    int saved = errno;
    wake_thread();
    errno = saved;
}

uint64_t writer_mark(void)
{
    return edges_posted_so_far();
}

/* ---- the stepping thread's side ---- */

void writer_set_gate(uint32_t bits)
{
    if (!edges_paused())
        atomic_store_explicit(&writer_gate, bits, memory_order_seq_cst);
    if (edges_paused()) /* recording may have paused meanwhile */
        atomic_store_explicit(&writer_gate, 0, memory_order_seq_cst);
    thread_log_halve(gate_open(GATE_KEPT));
}

void writer_edge_begin(void)
{
    cut |= leave_state(CAUGHT_UP, GOES_ON);
    atomic_fetch_add_explicit(&edges_announced, 1, memory_order_seq_cst);
}

bool edge_changes_nothing(const struct step_edge *edge)
{
    bool idle = edge->ended == ACTION_SKIP && edge->begun == ACTION_SKIP && !edge->kept;
    return edge->kind == EDGE_NOTE || (idle && edge->kind != EDGE_FIRST &&
                                       edge->kind != EDGE_START && edge->kind != EDGE_LAST);
}

/* The queue is full: recording pauses until it is empty. */
static void fall_behind(void)
{
    static _Atomic bool said;
    if (leave_state(GOES_ON, BEHIND)) {
        atomic_store(&writer_gate, 0);
        wake_thread(); /* it may have taken all edges meanwhile, and sleep */
    }
    if (!atomic_exchange(&said, true))
        log_error("%u steps wait to be written; recording is off until they are (steps_behind), "
                  "the program goes on",
                  EDGES);
}

/* Drops an announced edge: the queue is full, or its room is for edges that change something. */
static void refuse_edge(bool wanted, bool off)
{
    static _Atomic bool said;
    atomic_fetch_sub_explicit(&edges_announced, 1, memory_order_seq_cst);
    if (wanted && atomic_load(&state) != STOPPED)
        atomic_fetch_add_explicit(&missed, 1, memory_order_relaxed);
    if (off)
        return;
    if (wanted)
        fall_behind();
    else if (listening() && !atomic_exchange(&said, true))
        log_warn("the trace handlers are behind by %u steps: they are not told of all steps that "
                 "are not recorded",
                 EDGES / 2);
}

void writer_edge(const struct step_edge *edge)
{
    bool in_a_step = edge->kind != EDGE_STEP;
    bool wanted = !edge_changes_nothing(edge), off = edges_paused();
    uint64_t at = atomic_load_explicit(&edges_posted, memory_order_relaxed);
    uint64_t waiting = at - atomic_load_explicit(&edges_taken, memory_order_acquire);
    uint64_t most = wanted ? EDGES : listening() || all_wanted ? EDGES / 2 : 0;
    if (waiting >= most || off || (!wanted && run && !run())) {
        refuse_edge(wanted, off || waiting < most);
        return;
    }
    struct step_edge *posted = &edges[at % EDGES];
    *posted = *edge;
    if (cut && wanted) { /* the actions before this edge are unknown */
        posted->ended = ACTION_SKIP;
        posted->kept = cut = false;
    }
    posted->by = thread_log_self;
    posted->tid = posted->by ? atomic_load_explicit(&posted->by->tid, memory_order_relaxed) : 0;
    bool was = posted->ended >= ACTION_ACTIVE, is = edge->begun >= ACTION_ACTIVE;
    if (wanted)
        loss_sum(&posted->losses); /* a window may begin or end here, or have been refused before */
    atomic_store_explicit(&edges_posted, at + 1, memory_order_release);
    bool filling = waiting == EDGES / 4 || waiting == EDGES / 2;
    if (in_a_step || edge->kept || was != is || filling || edge->begun == ACTION_WARMUP)
        wake_thread();
}

uint64_t edges_posted_so_far(void)
{
    return atomic_load_explicit(&edges_posted, memory_order_acquire);
}

uint64_t edges_taken_so_far(void)
{
    return atomic_load_explicit(&edges_taken, memory_order_relaxed);
}

/* ---- the cprof thread's side ---- */

/* Waits for announced edges. Usually the stepping thread is about to post, but it may have lost its
 * processor. The rings fill meanwhile, so an edge that never comes (a debugger or cancellation
 * stopped its thread) is not waited for again. */
static void wait_for_announced(uint64_t announced)
{
    static uint64_t given_up; /* how many announced edges did not come */
    uint64_t begun = clock_monotonic_ns(), posted;
    for (unsigned i = 0; (posted = atomic_load(&edges_posted)) < announced; i++) {
        if (posted + given_up >= announced || edges_paused()) /* the edge is refused */
            return;
        if (clock_monotonic_ns() - begun > POST_MOST_NS) {
            given_up = announced - posted;
            return;
        }
        if (i < POST_YIELDS)
            sched_yield();
        else
            wake_wait(wake_word(), 1);
    }
    given_up = 0;
}

static bool being_taken;

bool edges_being_taken(void)
{
    return being_taken;
}

void edges_take(void (*take)(const struct step_edge *edge))
{
    wait_for_announced(atomic_load_explicit(&edges_announced, memory_order_seq_cst));
    uint64_t posted = atomic_load_explicit(&edges_posted, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&edges_taken, memory_order_relaxed);
    being_taken = true;
    for (; at < posted; at++) {
        take(&edges[at % EDGES]);
        atomic_store_explicit(&edges_taken, at + 1, memory_order_release);
    }
    being_taken = false;
}
