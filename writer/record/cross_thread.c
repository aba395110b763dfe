/* SPDX-License-Identifier: Apache-2.0 */
/* Spans that end on another thread than the one that began them. A TorchScript function that waits
 * continues where its future is completed, and a callback may leave a record_function(). The thread
 * that sees the end finds the span and reports the end to the span's owner. The owner takes it
 * before it next opens or closes a span; only the owner changes its stack. */
#include "writer/base/base.h"
#include "writer/record/emit.h"
#include "writer/writer.h"

#define TRIES 1000u /* a span that its owner is moving is found a moment later */

/* The newest open span with a key. */
struct found {
    struct thread_log *log; /* NULL: not found */
    uint64_t id, start;
    bool moving; /* a span was being written, and could not be compared */
};

/* Searches one thread's spans. Keys are reused addresses, so the span that began last counts. */
static void search_thread(struct thread_log *log, const void *key, struct found *found)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_acquire);
    for (uint32_t i = 0; i < depth; i++) {
        const struct open_span *span = &log->spans[i];
        uint64_t id = atomic_load_explicit(&span->id, memory_order_acquire);
        const void *begun_with = span_key(span);
        uint64_t start = atomic_load_explicit(&span->start, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (id == 0 || atomic_load_explicit(&span->id, memory_order_relaxed) != id)
            found->moving = true;
        else if (begun_with == key && (!found->log || start > found->start))
            *found = (struct found){log, id, start, found->moving};
    }
}

static struct found find_open(const void *key)
{
    struct found found;
    unsigned tries = TRIES;
    do {
        found = (struct found){0};
        for (struct thread_log *log = thread_log_first(); log; log = log->next)
            search_thread(log, key, &found);
    } while (!found.log && found.moving && --tries);
    return found;
}

/* Reports the end of a span to its owner. False: no room, because the owner dropped spans before it
 * took their ends. */
static bool report_end(struct thread_log *log, uint64_t id, uint64_t ticks)
{
    uint32_t number = atomic_load_explicit(&log->ended_told, memory_order_relaxed);
    do {
        if (number - atomic_load_explicit(&log->ended_taken, memory_order_acquire) >= SPAN_DEPTH)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&log->ended_told, &number, number + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    struct ended_span *e = &log->ends[number % SPAN_DEPTH];
    atomic_store_explicit(&e->ticks, ticks, memory_order_relaxed);
    atomic_store_explicit(&e->id, id, memory_order_release);
    return true;
}

void span_ended_elsewhere(const void *key)
{
    uint64_t ticks = clock_ticks();
    struct found found = find_open(key);
    if (found.log && !report_end(found.log, found.id, ticks))
        thread_log_lost(thread_log_self, LOSS_UNMATCHED, 1);
}

/* An end without an id is still being written; it and those after it are taken next time. */
void spans_take_ended(struct thread_log *log)
{
    uint32_t taken = atomic_load_explicit(&log->ended_taken, memory_order_relaxed);
    while (taken != atomic_load_explicit(&log->ended_told, memory_order_relaxed)) {
        struct ended_span *e = &log->ends[taken % SPAN_DEPTH];
        uint64_t id = atomic_load_explicit(&e->id, memory_order_acquire);
        uint64_t ticks = atomic_load_explicit(&e->ticks, memory_order_relaxed);
        if (id == 0)
            return;
        atomic_store_explicit(&e->id, 0, memory_order_relaxed);
        atomic_store_explicit(&log->ended_taken, ++taken, memory_order_release);
        span_close_at(log, id, ticks);
    }
}

uint64_t span_told_end(const struct thread_log *log, uint64_t id)
{
    uint32_t number = atomic_load_explicit(&log->ended_taken, memory_order_relaxed);
    uint32_t told = atomic_load_explicit(&log->ended_told, memory_order_relaxed);
    for (; number != told; number++) {
        const struct ended_span *e = &log->ends[number % SPAN_DEPTH];
        if (atomic_load_explicit(&e->id, memory_order_acquire) == id)
            return atomic_load_explicit(&e->ticks, memory_order_relaxed);
    }
    return 0;
}
