/* SPDX-License-Identifier: Apache-2.0 */
/* Ring of clock pairs that application threads read in CUDA calls, for the clock map. */
#include "cupti/clock_pairs.h"

#include <stdatomic.h>

#include "cupti/gpu_trace.h"

#define PAIRS    4096u /* enough while the cprof thread is a second late */
#define EVERY_NS 2.5e5 /* between readings; one takes some 100 */
#define AGAIN_NS 1e5   /* after readings that were preempted */
#define TRIES    3     /* the first one finds the caches cold */
#define MORE     17    /* more tries, one for each AGAIN_NS that the reading is late */
#define LOOKS    5
#define ROUGH_NS 100000u
#define QUICK_NS 500.0 /* a reading in the vDSO takes some 40 */

_Atomic uint64_t gpu_clock_due = UINT64_MAX;

/* The thread that holds `putting` writes, the cprof thread reads. A thread that was preempted after
 * its reading may put an older pair behind a newer one; the map leaves it out. */
static struct clock_pair ring[PAIRS];
static _Atomic uint64_t head, tail; /* pairs ever put in and taken out */
static _Atomic bool putting, wanted;
/* ticks: the longest good reading; the interval after a good reading and after a bad one */
static _Atomic uint64_t most, every, again;

static uint64_t system_ns(void)
{
    return (uint64_t)clock_wall_now();
}

/* Reads CLOCK_REALTIME between two reads of ticks. Returns the ticks that it took. */
static uint64_t read_pair(struct clock_pair *out)
{
    uint64_t before = clock_ticks();
    out->cupti = system_ns();
    uint64_t took = clock_ticks() - before;
    out->ticks = before + took / 2;
    return took;
}

/* ---- application threads ---- */

static bool read_good_pair(struct clock_pair *out, uint64_t late)
{
    uint64_t more = late / atomic_load_explicit(&again, memory_order_relaxed);
    for (uint64_t i = 0; i < TRIES + (more < MORE ? more : MORE); i++)
        if (read_pair(out) <= atomic_load_explicit(&most, memory_order_relaxed))
            return true;
    return false;
}

static bool has_room(void)
{
    return atomic_load_explicit(&head, memory_order_relaxed) -
               atomic_load_explicit(&tail, memory_order_acquire) <
           PAIRS;
}

/* False: the ring is full, or another thread puts its pair now. */
static bool put_pair(const struct clock_pair *pair)
{
    if (atomic_exchange_explicit(&putting, true, memory_order_acquire))
        return false;
    uint64_t at = atomic_load_explicit(&head, memory_order_relaxed);
    bool room = has_room();
    if (room) {
        ring[at % PAIRS] = *pair;
        atomic_store_explicit(&head, at + 1, memory_order_release);
    }
    atomic_store_explicit(&putting, false, memory_order_release);
    return room;
}

/* Sets the next time first: while this thread is preempted in its reading, others read. */
void gpu_clock_take(void)
{
    uint64_t now = clock_ticks(), due = atomic_load_explicit(&gpu_clock_due, memory_order_relaxed);
    bool reads = atomic_load_explicit(&wanted, memory_order_acquire) && has_room();
    uint64_t next = UINT64_MAX;
    struct clock_pair pair;
    if (reads)
        next = now + atomic_load_explicit(&again, memory_order_relaxed);
    if (now < due || !atomic_compare_exchange_strong_explicit(
                         &gpu_clock_due, &due, next, memory_order_relaxed, memory_order_relaxed))
        return;
    if (reads && read_good_pair(&pair, now - due) && put_pair(&pair))
        atomic_store_explicit(&gpu_clock_due,
                              now + atomic_load_explicit(&every, memory_order_relaxed),
                              memory_order_relaxed);
}

/* ---- the cprof thread ---- */

/* Whether now() reads CLOCK_REALTIME. Returns `was` when every reading was preempted. */
static bool is_realtime(int (*now)(uint64_t *), bool was)
{
    for (int i = 0; i < LOOKS; i++) {
        uint64_t stamp = 0, before = system_ns();
        if (now(&stamp) != 0)
            return false;
        uint64_t after = system_ns();
        if (after - before < 3 * QUICK_NS)
            return before <= stamp && stamp <= after;
    }
    return was;
}

/* Ticks per nanosecond, within some per cent. Preemption makes it worse: pairs are then read too
 * often or too seldom until the next pass. */
static double rough_rate(void)
{
    uint64_t from = clock_monotonic_ns(), ticks = clock_ticks(), now;
    while ((now = clock_monotonic_ns()) < from + ROUGH_NS)
        ;
    return (double)(clock_ticks() - ticks) / (double)(now - from);
}

static bool is_quick(double rate)
{
    static uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < LOOKS; i++) {
        struct clock_pair unused;
        uint64_t took = read_pair(&unused);
        shortest = took < shortest ? took : shortest;
    }
    atomic_store_explicit(&most, shortest * 2, memory_order_relaxed);
    atomic_store_explicit(&every, (uint64_t)(EVERY_NS * rate), memory_order_relaxed);
    atomic_store_explicit(&again, (uint64_t)(AGAIN_NS * rate), memory_order_relaxed);
    return (double)shortest < QUICK_NS * rate;
}

void clock_pairs_take(struct cupti_clock *c, int (*now)(uint64_t *), uint64_t until)
{
    bool was = atomic_load_explicit(&wanted, memory_order_relaxed);
    bool is = is_realtime(now, was) && is_quick(c->rate > 0 ? c->rate : rough_rate());
    uint64_t at = atomic_load_explicit(&tail, memory_order_relaxed);
    for (; at != atomic_load_explicit(&head, memory_order_acquire); at++) {
        const struct clock_pair *pair = &ring[at % PAIRS];
        if (pair->ticks >= until)
            break;
        if (was && is)
            cupti_clock_add(c, pair->cupti, pair->ticks);
    }
    atomic_store_explicit(&tail, at, memory_order_release);
    atomic_store_explicit(&wanted, is, memory_order_release); /* `again` is set */
    if (is && atomic_load_explicit(&gpu_clock_due, memory_order_relaxed) == UINT64_MAX)
        atomic_store_explicit(&gpu_clock_due, 0, memory_order_relaxed);
}
