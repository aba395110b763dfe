/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that end on another thread than the one that began them (a record_function() that a callback leaves): the thread that ends one leaves
 * a note, the one that began it looks at the notes when it opens its next range. A note's number is written last, and read before and after
 * what it numbers. */
#include "writer/clock.h"
#include "writer/emit.h"
#include "writer/writer.h"

#define NOTES 1024u /* twice what one thread may have open */

/* Written by who took its number, read by all that record ranges. */
struct note {
    _Atomic uint64_t number; /* from 1; 0: being written; last, release, and read first, acquire */
    _Atomic(const void *) key; /* of the span; relaxed */
    _Atomic uint64_t ticks;    /* when it ended; relaxed */
};

static struct note notes[NOTES];
static _Atomic uint64_t count; /* numbers taken by any thread; relaxed */
/* no thread had a span open, and none has begun a range since; any thread, relaxed */
static _Atomic bool none_open;

/* Whether a thread has a span open that was begun with this key. */
static bool is_open(const void *key)
{
    bool any = false;
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint32_t depth = atomic_load_explicit(&log->depth, memory_order_acquire);
        for (uint32_t i = 0; i < depth; i++)
            if (span_key(&log->spans[i]) == key)
                return true;
        any = any || depth > 0;
    }
    if (!any)
        atomic_store_explicit(&none_open, true, memory_order_relaxed);
    return false;
}

/* While nothing is recorded nearly every range ends so, and would push out the notes of the few that were begun before. */
static bool was_recorded(const void *key)
{
    return gate_open(GATE_SPANS) ||
           (!atomic_load_explicit(&none_open, memory_order_relaxed) && is_open(key));
}

void span_ended_elsewhere(const void *key)
{
    if (!was_recorded(key))
        return;
    uint64_t ticks = clock_ticks();
    uint64_t number = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    struct note *n = &notes[number % NOTES];
    atomic_store_explicit(&n->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&n->key, key, memory_order_relaxed);
    atomic_store_explicit(&n->ticks, ticks, memory_order_relaxed);
    atomic_store_explicit(&n->number, number, memory_order_release);
}

/* False: it is not written yet. One that is overwritten meanwhile is none. */
static bool take(struct thread_log *log, uint64_t number)
{
    struct note *n = &notes[number % NOTES];
    uint64_t found = atomic_load_explicit(&n->number, memory_order_acquire);
    const void *key = atomic_load_explicit(&n->key, memory_order_relaxed);
    uint64_t ticks = atomic_load_explicit(&n->ticks, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (found == number && atomic_load_explicit(&n->number, memory_order_relaxed) == number)
        span_close_at(log, key, ticks);
    return found >= number;
}

void spans_expect_ended(void)
{
    if (__builtin_expect(atomic_load_explicit(&none_open, memory_order_relaxed), 0))
        atomic_store_explicit(&none_open, false, memory_order_relaxed);
}

void spans_take_ended(struct thread_log *log)
{
    uint64_t all = atomic_load_explicit(&count, memory_order_relaxed);
    if (__builtin_expect(log->ended_seen == all, 1))
        return;
    if (all - log->ended_seen > NOTES)
        log->ended_seen = all - NOTES;
    while (log->ended_seen < all && take(log, log->ended_seen + 1))
        log->ended_seen++;
}
