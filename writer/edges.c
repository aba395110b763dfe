/* SPDX-License-Identifier: Apache-2.0 */
/* See edges.h. */
#include "writer/edges.h"

#include <sched.h>

#include "writer/futex.h"
#include "writer/listening.h"

#define EDGES        4096u /* posted and not yet taken; a power of two */
#define POST_YIELDS  1000u
#define POST_MOST_NS 2000000000u /* an announced edge is waited for */

static struct step_edge edges[EDGES];
/* stepping thread adds before it reads the clock; cprof thread reads */
static _Atomic uint64_t edges_announced;
/* stepping thread adds (release) after filling; cprof thread reads */
static _Atomic uint64_t edges_posted;
/* cprof thread adds; stepping thread reads to see a full queue */
static _Atomic uint64_t edges_taken;
static _Atomic uint32_t wake_word; /* futex: counts wake-ups */
static _Atomic bool stopped;       /* recording is off for good; any thread writes, all read */

void edges_stop(void)
{
    atomic_store(&stopped, true);
    atomic_store(&writer_gate, 0);
}

bool edges_stopped(void)
{
    return atomic_load(&stopped);
}

void edges_wake(void)
{
    atomic_fetch_add_explicit(&wake_word, 1, memory_order_release);
    futex_wake(&wake_word);
}

uint32_t edges_wake_word(void)
{
    return atomic_load_explicit(&wake_word, memory_order_acquire);
}

void edges_wait(uint32_t word, int64_t ms)
{
    futex_wait(&wake_word, word, ms);
}

/* ---- the stepping thread's side ---- */

void writer_set_gate(uint32_t bits)
{
    static uint32_t times; /* set open: makes each time another value, for hold_is_full() */
    if (bits)
        bits |= ++times << GATE_BITS;
    if (!atomic_load_explicit(&stopped, memory_order_acquire))
        atomic_store_explicit(&writer_gate, bits, memory_order_seq_cst);
    if (atomic_load_explicit(&stopped, memory_order_acquire)) /* meanwhile */
        atomic_store_explicit(&writer_gate, 0, memory_order_seq_cst);
}

void writer_edge_begin(void)
{
    atomic_fetch_add_explicit(&edges_announced, 1, memory_order_seq_cst);
}

bool edge_changes_nothing(const struct step_edge *edge)
{
    bool idle = edge->ended == ACTION_SKIP && edge->begun == ACTION_SKIP && !edge->kept;
    return edge->kind == EDGE_NOTE || (idle && edge->kind != EDGE_FIRST &&
                                       edge->kind != EDGE_START && edge->kind != EDGE_LAST);
}

/* The edge is not posted: the queue is full, or to be left to edges that change something. */
static void refuse_edge(bool wanted, bool off)
{
    static _Atomic bool said;
    atomic_fetch_sub_explicit(&edges_announced, 1, memory_order_seq_cst);
    if (off)
        return;
    if (wanted) {
        edges_stop();
        log_error("%u steps wait to be written; recording is off, the program goes on", EDGES);
    } else if (listening() && !atomic_exchange(&said, true)) {
        log_warn("the trace handlers are behind by %u steps: they are not told of all steps that "
                 "are not recorded",
                 EDGES / 2);
    }
}

void writer_edge(const struct step_edge *edge)
{
    bool in_a_step = edge->kind != EDGE_STEP;
    bool wanted = !edge_changes_nothing(edge), off = atomic_load(&stopped);
    uint64_t at = atomic_load_explicit(&edges_posted, memory_order_relaxed);
    uint64_t waiting = at - atomic_load_explicit(&edges_taken, memory_order_acquire);
    uint64_t most = wanted ? EDGES : listening() ? EDGES / 2 : 0;
    if (waiting >= most || off || (!wanted && !writer_run())) {
        refuse_edge(wanted, off || waiting < most);
        return;
    }
    struct step_edge *posted = &edges[at % EDGES];
    *posted = *edge;
    posted->by = thread_log_self;
    posted->tid = posted->by ? atomic_load_explicit(&posted->by->tid, memory_order_relaxed) : 0;
    posted->gate = atomic_load_explicit(&writer_gate, memory_order_relaxed);
    if (edge->ended != ACTION_ACTIVE || edge->begun < ACTION_ACTIVE || in_a_step)
        window_losses(&posted->losses); /* a window may begin or end here */
    atomic_store_explicit(&edges_posted, at + 1, memory_order_release);
    bool was = edge->ended >= ACTION_ACTIVE, is = edge->begun >= ACTION_ACTIVE;
    bool filling = waiting == EDGES / 4 || waiting == EDGES / 2;
    if (in_a_step || edge->kept || was != is || filling || edge->begun == ACTION_WARMUP)
        edges_wake();
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

/* Most often the thread is about to post; but the system may have taken the processor from it just then. While it is waited for the rings
 * fill, so that one that never posts (a debugger holds it, it was cancelled) is not waited for again. */
static void wait_for_announced(uint64_t announced)
{
    static uint64_t given_up; /* of those announced, how many did not come */
    uint64_t begun = clock_monotonic_ns(), posted;
    for (unsigned i = 0; (posted = atomic_load(&edges_posted)) < announced; i++) {
        if (posted + given_up >= announced)
            return;
        if (clock_monotonic_ns() - begun > POST_MOST_NS) {
            given_up = announced - posted;
            return;
        }
        if (i < POST_YIELDS)
            sched_yield();
        else
            edges_wait(edges_wake_word(), 1);
    }
    given_up = 0;
}

void edges_take(void (*take)(const struct step_edge *edge))
{
    wait_for_announced(atomic_load_explicit(&edges_announced, memory_order_seq_cst));
    uint64_t posted = atomic_load_explicit(&edges_posted, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&edges_taken, memory_order_relaxed);
    for (; at < posted; at++) {
        take(&edges[at % EDGES]);
        atomic_store_explicit(&edges_taken, at + 1, memory_order_release);
    }
}
