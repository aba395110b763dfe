/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path: from a hook to the ring of its thread. Runs on application threads; no lock, no allocation, no system call. */
#include "writer/writer.h"

#include <string.h>

_Atomic uint32_t writer_gate;

/* Counts without a locked instruction: only the owner adds, the cprof thread only reads. */
static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void lost(struct thread_log *log, enum loss cause)
{
    count(&log->losses[cause]);
}

/* Room for a record in the thread's ring, its lengths filled in; NULL and counted when there is none. */
static struct record *reserve(struct thread_log *log, uint32_t text_len, uint32_t data_len)
{
    uint64_t slots = record_slots(text_len, data_len);
    if (__builtin_expect(slots > log->ring.slots / 4, 0)) {
        lost(log, LOSS_TOO_BIG);
        return NULL;
    }
    struct record *r = ring_reserve(&log->ring, slots);
    if (__builtin_expect(!r, 0)) {
        lost(log, LOSS_RING_FULL);
        return NULL;
    }
    r->slots = (uint32_t)slots;
    r->text_len = text_len;
    r->data_len = data_len;
    return r;
}

static void commit(struct thread_log *log, const struct record *r)
{
    ring_commit(&log->ring, r->slots);
    count(&log->records);
}

uint64_t span_top(const struct thread_log *log)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    return depth ? atomic_load_explicit(&log->spans[depth - 1].id, memory_order_relaxed) : 0;
}

struct open_span *span_open(struct thread_log *log, const void *key, enum category category,
                            const char *text, uint32_t text_len)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    if (__builtin_expect(depth == SPAN_DEPTH, 0)) {
        lost(log, LOSS_DEPTH);
        return NULL;
    }
    uint32_t room = SPAN_TEXT - log->text_used;
    if (__builtin_expect(text_len > room, 0)) {
        lost(log, LOSS_TEXT);
        text_len = room;
    }
    struct open_span *span = &log->spans[depth];
    uint64_t id = ++log->next_id;
    /* The cprof thread may be reading this entry: id first goes to 0, and comes last. */
    atomic_store_explicit(&span->id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    span->parent =
        depth ? atomic_load_explicit(&log->spans[depth - 1].id, memory_order_relaxed) : 0;
    span->key = key;
    span->sequence = -1;
    span->forward_thread = 0;
    span->text_at = log->text_used;
    span->text_len = text_len;
    span->data_len = 0;
    span->category = (uint8_t)category;
    span->data_kind = DATA_NONE;
    span->flags = 0;
    memcpy(log->text + log->text_used, text, text_len);
    log->text_used += text_len;
    span->start = clock_ticks();
    atomic_store_explicit(&span->id, id, memory_order_release);
    atomic_store_explicit(&log->depth, depth + 1, memory_order_release);
    return span;
}

uint8_t *span_data_room(struct thread_log *log, const struct open_span *span, uint32_t most)
{
    (void)span;
    if (most > SPAN_TEXT - log->text_used) {
        lost(log, LOSS_TEXT);
        return NULL;
    }
    return (uint8_t *)log->text + log->text_used;
}

void span_data_done(struct thread_log *log, struct open_span *span, enum record_data kind,
                    uint32_t used)
{
    span->data_kind = (uint8_t)kind;
    span->data_len = used;
    log->text_used += used;
}

static void put_span(struct thread_log *log, const struct open_span *span, uint64_t end)
{
    struct record *r = reserve(log, span->text_len, span->data_len);
    if (!r)
        return;
    r->kind = REC_SPAN;
    r->category = span->category;
    r->data_kind = span->data_kind;
    r->flags = span->flags;
    r->start = span->start;
    r->end = end;
    r->id = atomic_load_explicit(&span->id, memory_order_relaxed);
    r->parent = span->parent;
    r->op.sequence = span->sequence;
    r->op.forward_thread = span->forward_thread;
    memcpy(r + 1, log->text + span->text_at, span->text_len + span->data_len);
    commit(log, r);
}

uint64_t span_close(struct thread_log *log, const void *key)
{
    uint64_t end = clock_ticks();
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    uint32_t at = depth;
    while (at > 0 && log->spans[at - 1].key != key)
        at--;
    if (at == 0)
        return 0; /* begun while nothing was recorded, or lost at its start: counted then */
    for (uint32_t above = at; above < depth; above++)
        lost(log, LOSS_UNMATCHED);
    struct open_span *span = &log->spans[at - 1];
    put_span(log, span, end);
    log->text_used = span->text_at;
    atomic_store_explicit(&log->depth, at - 1, memory_order_release);
    return end;
}

/* Instants, counters and memory share their header. */
static struct record *put_point(struct thread_log *log, enum record_kind kind, const char *text,
                                uint32_t text_len, enum record_data data_kind, const void *data,
                                uint32_t data_len)
{
    struct record *r = reserve(log, text_len, data_len);
    if (!r)
        return NULL;
    r->kind = (uint8_t)kind;
    r->category = CAT_USER_ANNOTATION;
    r->data_kind = (uint8_t)data_kind;
    r->flags = 0;
    r->start = r->end = clock_ticks();
    r->id = 0;
    r->parent = span_top(log);
    r->op.sequence = -1;
    r->op.forward_thread = 0;
    if (text_len)
        memcpy(r + 1, text, text_len);
    if (data_len)
        memcpy((char *)(r + 1) + text_len, data, data_len);
    return r;
}

void spans_abandon(struct thread_log *log)
{
    uint64_t end = clock_ticks();
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (depth > 0) {
        struct open_span *span = &log->spans[--depth];
        span->flags |= REC_UNFINISHED;
        put_span(log, span, end);
    }
    log->text_used = 0;
    atomic_store_explicit(&log->depth, 0, memory_order_release);
}

void emit_instant(struct thread_log *log, enum category category, uint8_t flags, const char *text,
                  uint32_t text_len, enum record_data data_kind, const void *data,
                  uint32_t data_len)
{
    struct record *r = put_point(log, REC_INSTANT, text, text_len, data_kind, data, data_len);
    if (!r)
        return;
    r->category = (uint8_t)category;
    r->flags = flags;
    commit(log, r);
}

void emit_counter(struct thread_log *log, uint8_t flags, const char *text, uint32_t text_len,
                  const void *data, uint32_t data_len)
{
    struct record *r = put_point(log, REC_COUNTER, text, text_len, DATA_ARGS, data, data_len);
    if (!r)
        return;
    r->flags = flags;
    commit(log, r);
}

void emit_memory(struct thread_log *log, uint64_t address, int64_t bytes,
                 const struct record_memory *extra)
{
    struct record *r =
        put_point(log, REC_MEMORY, NULL, 0, DATA_MEMORY, extra, (uint32_t)sizeof *extra);
    if (!r)
        return;
    r->category = CAT_MEMORY;
    r->memory.address = address;
    r->memory.bytes = bytes;
    commit(log, r);
}
