/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path from a hook to its thread's ring. Application threads; no lock, no allocation, no
 * system call. */
#include "writer/record/emit.h"

#include <string.h>

#include "writer/record/edges.h"
#include "writer/writer.h"
#include "writer/base/base.h"

/* slots; another core's cache line takes some 200 ns to come, the time of five to ten records */
#define AHEAD 20u

/* For functions that every event passes through. Calls and saved registers would be an eighth of
 * the instructions. */
#define HOT static inline __attribute__((always_inline))

_Atomic uint32_t writer_gate;

/* Adds without a locked instruction: only the owner writes, other threads read. */
static void count_loss(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void thread_log_note_loss(struct thread_log *log)
{
    if (atomic_load_explicit(&log->lost_since, memory_order_relaxed) == 0)
        atomic_store_explicit(&log->lost_since, clock_ticks(), memory_order_relaxed);
}

static void count_lost(struct thread_log *log, enum loss cause)
{
    thread_log_note_loss(log);
    count_loss(&log->losses[cause]);
}

/* A record found no room. A span that ends while nothing of its kind is recorded began in a window
 * that is over, so its loss cannot count for that window. */
static __attribute__((noinline)) void refuse_span(struct thread_log *log,
                                                  const struct open_span *span, enum loss cause)
{
    uint8_t flags = span ? atomic_load_explicit(&span->flags, memory_order_relaxed) : 0;
    uint32_t of_its_kind = flags & REC_SKIPPED  ? GATE_SKIPPED | GATE_MARKERS
                           : flags & REC_MARKER ? GATE_MARKERS
                                                : GATE_SPANS;
    if (span && !gate_open(of_its_kind))
        count_loss(&log->refused_late);
    else
        count_lost(log, cause);
}

/* Reserves a record in the thread's ring, and fills in name and lengths. NULL, counted: no room.
 * span: the record's span, or NULL. */
HOT struct record *reserve(struct thread_log *log, const struct open_span *span, uint32_t name,
                           uint32_t data_len, uint8_t extras)
{
    uint64_t slots = record_slots(name, data_len, extras);
    if (__builtin_expect(slots > log->ring.slots / 4, 0)) {
        refuse_span(log, span, LOSS_TOO_BIG);
        return NULL;
    }
    struct record *r = ring_reserve(&log->ring, slots);
    if (__builtin_expect(!r, 0)) {
        refuse_span(log, span, LOSS_RING_FULL);
        return NULL;
    }
    r->slots_and_extras = (uint32_t)slots | (uint32_t)extras << 24;
    r->name = name;
    r->data_len = data_len;
    return r;
}

/* Fetches a cache line for writing, so that no other core holds it at the write. For
 * `__builtin_prefetch(line, 1)`, gcc uses PREFETCHW only where all processors have it. All
 * processors with a steady clock have it or ignore it (Intel's manual, volume 2, opcode map, 0F
 * 0D). */
HOT void fetch_to_write(const struct record *line)
{
#if defined(__x86_64__)
    if (__builtin_expect(clock_uses_tsc, 1)) {
        __asm__ volatile("prefetchw %0" ::"m"(*line));
        return;
    }
#endif
    __builtin_prefetch(line, 1);
}

/* Fetches lines that records will fill a few records from now, because the cprof thread had these
 * lines last. As many as `slots` of the record at `at`; two without a test, because most records
 * have two. */
HOT void prefetch(const struct ring *ring, uint64_t at, uint64_t slots)
{
    const struct record *ahead = &ring->base[(at + AHEAD) & (ring->slots - 1)];
    fetch_to_write(ahead);
    fetch_to_write(ahead + 1);
    if (slots > 2) {
        fetch_to_write(ahead + 2);
        fetch_to_write(ahead + 3);
    }
}

HOT void commit(struct thread_log *log)
{
    prefetch(&log->ring, log->ring.reserved, log->ring.filling);
    ring_commit(&log->ring);
    count_loss(&log->records);
}

struct record *emit_begin(struct thread_log *log, uint32_t name, uint32_t data_len)
{
    return reserve(log, NULL, name, data_len, 0);
}

void emit_end(struct thread_log *log)
{
    commit(log);
}

uint64_t span_top(const struct thread_log *log)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    return depth ? atomic_load_explicit(&log->spans[depth - 1].id, memory_order_relaxed) : 0;
}

/* The module of the span at this index, which it inherited or set; 0: none. */
static inline uint64_t module_at(const struct thread_log *log, uint32_t at)
{
    if (!(atomic_load_explicit(&log->spans[at].extras, memory_order_relaxed) & 1u << EXTRA_MODULE))
        return 0;
    return atomic_load_explicit(&log->extras[at][EXTRA_MODULE], memory_order_relaxed);
}

uint64_t span_module(const struct thread_log *log)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    return depth ? module_at(log, depth - 1) : 0;
}

/* The bits that a span inherits in `kinds` from the span around it, whose `kinds` is `around`:
 * REC_IN_COUNTED and EXTRAS_INHERITED. */
static inline uint32_t inherited(uint32_t around)
{
    uint32_t counted = around >> (KINDS_EXTRAS + EXTRA_FLOPS) & 1;
    uint32_t kept = (uint32_t)REC_IN_COUNTED << KINDS_FLAGS | EXTRAS_INHERITED << KINDS_EXTRAS;
    return (around & kept) | counted * ((uint32_t)REC_IN_COUNTED << KINDS_FLAGS);
}

static inline bool any_ended_elsewhere(const struct thread_log *log)
{
    return atomic_load_explicit(&log->ended_told, memory_order_relaxed) !=
           atomic_load_explicit(&log->ended_taken, memory_order_relaxed);
}

/* Free bytes for names of open spans. */
static inline uint32_t text_room(const struct thread_log *log)
{
    return SPAN_TEXT - log->text_used * 8;
}

/* Opens a span. The caller has checked that the stack and thread_log.text have room. */
HOT struct open_span *push_span(struct thread_log *log, const void *key, enum category category,
                                const char *text, uint32_t text_len, uint32_t name,
                                uint64_t (*now)(void))
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    uint32_t text_at = log->text_used;
    struct open_span *span = &log->spans[depth];
    uint64_t id = ++log->next_id, parent = 0;
    uint32_t around = 0;
    if (depth) {
        parent = atomic_load_explicit(&span[-1].id, memory_order_relaxed);
        around = atomic_load_explicit(&span[-1].kinds, memory_order_relaxed);
    }
    /* The cprof thread may be reading this entry, so id goes to 0 first and is set last. */
    atomic_store_explicit(&span->id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&span->parent, parent, memory_order_relaxed);
    atomic_store_explicit(&span->key, key, memory_order_relaxed);
    span_set_node(span, -1, 0);
    atomic_store_explicit(&span->text_at, text_at, memory_order_relaxed);
    atomic_store_explicit(&span->name, name, memory_order_relaxed);
    span->data_at = (uint16_t)log->data_used;
    span->data_len = 0;
    atomic_store_explicit(&span->kinds, inherited(around) | (uint32_t)category,
                          memory_order_relaxed);
    if (__builtin_expect(around >> (KINDS_EXTRAS + EXTRA_MODULE) & 1, 0))
        span_set_extra(log, span, EXTRA_MODULE, module_at(log, depth - 1));
    push_text(log, text_at, text, text_len);
    log->text_used = text_at + (text_len + 7) / 8;
    atomic_store_explicit(&span->start, now(), memory_order_relaxed);
    atomic_store_explicit(&span->id, id, memory_order_release);
    atomic_store_explicit(&log->depth, depth + 1, memory_order_release);
    return span;
}

/* span_open() for a name with a text, ends from other threads, a full stack, or a clock that is no
 * counter. */
static __attribute__((noinline)) struct open_span *open_with_text(struct thread_log *log,
                                                                  const void *key,
                                                                  enum category category,
                                                                  const char *text, uint32_t name)
{
    if (any_ended_elsewhere(log))
        spans_take_ended(log);
    if (atomic_load_explicit(&log->depth, memory_order_relaxed) == SPAN_DEPTH) {
        count_lost(log, LOSS_DEPTH);
        return NULL;
    }
    if (name_bytes(name) > text_room(log)) {
        count_lost(log, LOSS_TEXT);
        name = text_room(log);
    }
    return push_span(log, key, category, text, name_bytes(name), name, clock_ticks);
}

/* All calls are in open_with_text(), which is a jump, so no registers are saved. */
struct open_span *span_open(struct thread_log *log, const void *key, enum category category,
                            const char *text, uint32_t name)
{
    if (__builtin_expect(!(name & NAME_NUMBERED) || any_ended_elsewhere(log) ||
                             !clock_is_counter() ||
                             atomic_load_explicit(&log->depth, memory_order_relaxed) == SPAN_DEPTH,
                         0))
        return open_with_text(log, key, category, text, name);
    return push_span(log, key, category, NULL, 0, name, clock_counter);
}

uint8_t *span_data_refused(struct thread_log *log)
{
    count_lost(log, LOSS_TEXT);
    return NULL;
}

/* Copies the values of a span's extras, one after the other. */
static void copy_extras(char *to, unsigned mask, const _Atomic uint64_t *values)
{
    for (; mask; mask &= mask - 1, to += sizeof(uint64_t)) {
        uint64_t value = atomic_load_explicit(&values[__builtin_ctz(mask)], memory_order_relaxed);
        memcpy(to, &value, sizeof value);
    }
}

/* Fills the span's record, to be committed. NULL, counted: no room. */
HOT struct record *fill_span(struct thread_log *log, const struct open_span *span, uint64_t end)
{
    uint32_t name = atomic_load_explicit(&span->name, memory_order_relaxed);
    uint32_t text_len = name_bytes(name);
    uint8_t extras = atomic_load_explicit(&span->extras, memory_order_relaxed);
    struct record *r = reserve(log, span, name, span->data_len, extras);
    if (!r)
        return NULL;
    uint8_t flags = atomic_load_explicit(&span->flags, memory_order_relaxed);
    r->kind = REC_SPAN;
    r->category = atomic_load_explicit(&span->category, memory_order_relaxed);
    r->data_kind = span->data_kind;
    r->flags = flags;
    r->start = atomic_load_explicit(&span->start, memory_order_relaxed);
    r->end = end;
    r->id = atomic_load_explicit(&span->id, memory_order_relaxed);
    r->parent = atomic_load_explicit(&span->parent, memory_order_relaxed);
    r->op.sequence = atomic_load_explicit(&span->sequence, memory_order_relaxed);
    r->op.forward_thread = atomic_load_explicit(&span->forward_thread, memory_order_relaxed);
    if (__builtin_expect(flags & REC_CROSSES, 0)) {
        r->kind = REC_ASYNC;
        r->async.tid = 0;
    }
    copy_words((char *)(r + 1), text_len, log, span);
    if (span->data_len)
        memcpy((char *)(r + 1) + text_len, log->data + span->data_at, span->data_len);
    if (__builtin_expect(extras & EXTRAS_VALUES, 0))
        copy_extras((char *)(r + 1) + text_len + span->data_len, extras & EXTRAS_VALUES,
                    log->extras[span - log->spans]);
    return r;
}

/* Fills and commits the span's record, on rare paths. */
static __attribute__((noinline)) void put_span(struct thread_log *log, const struct open_span *span,
                                               uint64_t end)
{
    struct record *r = fill_span(log, span, end);
    if (r)
        commit(log);
}

/* Moves an open span down in the stack, its text to word `text` and its data to byte `data`, both
 * below their old places. */
static void move_down(struct thread_log *log, struct open_span *from, struct open_span *to,
                      uint32_t text, uint32_t data)
{
    uint64_t id = atomic_load_explicit(&from->id, memory_order_relaxed);
    uint32_t text_at = atomic_load_explicit(&from->text_at, memory_order_relaxed);
    uint32_t name = atomic_load_explicit(&from->name, memory_order_relaxed);
    /* As in push_span(): the cprof thread may be reading either entry. */
    atomic_store_explicit(&from->id, 0, memory_order_relaxed);
    atomic_store_explicit(&to->id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
#define MOVE(field)                                                                                \
    atomic_store_explicit(&to->field, atomic_load_explicit(&from->field, memory_order_relaxed),    \
                          memory_order_relaxed)
    MOVE(start);
    MOVE(sequence);
    MOVE(forward_thread);
    MOVE(category);
    MOVE(flags);
    MOVE(extras);
    MOVE(parent);
#undef MOVE
    for (uint32_t i = 0; i < (name_bytes(name) + 7) / 8; i++)
        atomic_store_explicit(&log->text[text + i],
                              atomic_load_explicit(&log->text[text_at + i], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&to->text_at, text, memory_order_relaxed);
    atomic_store_explicit(&to->name, name, memory_order_relaxed);
    for (unsigned i = 0; i < EXTRA_COUNT; i++)
        atomic_store_explicit(
            &log->extras[to - log->spans][i],
            atomic_load_explicit(&log->extras[from - log->spans][i], memory_order_relaxed),
            memory_order_relaxed);
    memmove(log->data + data, log->data + from->data_at, from->data_len);
    atomic_store_explicit(&to->key, span_key(from), memory_order_relaxed);
    to->data_at = (uint16_t)data;
    to->data_len = from->data_len;
    to->data_kind = from->data_kind;
    atomic_store_explicit(&to->id, id, memory_order_release);
}

/* Ends the spans from..to that end with the span around them. */
static void end_late_spans(struct thread_log *log, uint32_t from, uint32_t to, uint64_t end)
{
    for (uint32_t i = to; i > from; i--) {
        struct open_span *span = &log->spans[i - 1];
        if (!(atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_ENDS_LATE))
            continue;
        put_span(log, span, end);
        atomic_store_explicit(&span->id, 0, memory_order_relaxed);
    }
}

/* True when one of the spans from..to is open and is no operator that may end on another thread. */
static bool any_must_nest(const struct thread_log *log, uint32_t from, uint32_t to)
{
    for (const struct open_span *span = &log->spans[from]; span < &log->spans[to]; span++)
        if (atomic_load_explicit(&span->id, memory_order_relaxed) != 0 &&
            !(atomic_load_explicit(&span->category, memory_order_relaxed) == CAT_CPU_OP &&
              atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_LOOSE))
            return true;
    return false;
}

/* Ends the span at `at` and removes it from the stack; open spans above it move down. */
static void take_out_span(struct thread_log *log, uint32_t at, uint64_t end)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed), to = at;
    struct open_span *span = &log->spans[at];
    struct record *r = fill_span(log, span, end);
    uint32_t text = atomic_load_explicit(&span->text_at, memory_order_relaxed);
    uint32_t data = span->data_at;
    for (uint32_t i = at + 1; i < depth; i++) {
        struct open_span *above = &log->spans[i];
        if (atomic_load_explicit(&above->id, memory_order_relaxed) == 0)
            continue; /* it ended with this span, or was dropped */
        uint32_t name = atomic_load_explicit(&above->name, memory_order_relaxed);
        uint32_t words = (name_bytes(name) + 7) / 8;
        uint32_t bytes = above->data_len;
        move_down(log, above, &log->spans[to++], text, data);
        text += words;
        data += bytes;
    }
    log->text_used = text;
    log->data_used = data;
    atomic_store_explicit(&log->depth, to, memory_order_release);
    if (r) /* last, because the cprof thread then finds the span gone and those above it moved */
        commit(log);
}

/* The span around the spans from..to ends while they are open. Those that may outlive it become
 * asynchronous; the others are dropped. */
static void make_async_or_drop(struct thread_log *log, uint32_t from, uint32_t to)
{
    for (struct open_span *span = &log->spans[from]; span < &log->spans[to]; span++) {
        if (atomic_load_explicit(&span->id, memory_order_relaxed) == 0)
            continue; /* it ended with the span around it */
        if (atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_LOOSE) {
            span_add_flags(span, REC_CROSSES);
            continue;
        }
        count_lost(log, LOSS_UNMATCHED);
        atomic_store_explicit(&span->id, 0, memory_order_relaxed);
    }
}

/* Closes the span at `at`, which has open spans inside. Rows must nest. So the span becomes
 * asynchronous if it may; else the inner ones that may become so, and others are dropped. */
static __attribute__((noinline)) void close_around(struct thread_log *log, uint32_t at,
                                                   uint64_t end)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    struct open_span *span = &log->spans[at];
    if (atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_LOOSE &&
        any_must_nest(log, at + 1, depth))
        span_add_flags(span, REC_CROSSES);
    else
        make_async_or_drop(log, at + 1, depth);
    take_out_span(log, at, end);
}

/* When the thread began the span above the one at `at`; UINT64_MAX: there is none. */
static uint64_t begin_above(const struct thread_log *log, uint32_t at)
{
    if (at + 1 >= atomic_load_explicit(&log->depth, memory_order_relaxed))
        return UINT64_MAX;
    return atomic_load_explicit(&log->spans[at + 1].start, memory_order_relaxed);
}

uint64_t span_end_in_row(const struct thread_log *log, uint32_t at, uint64_t end)
{
    uint64_t above = begin_above(log, at);
    return above < end ? above : end;
}

/* Whether an operator at `at` that ended on another thread still nests in its thread's row: its
 * thread began a span above it by then, or nothing in the row ended later. Cuts *end. */
static bool fits_into_row(const struct thread_log *log, uint32_t at, uint64_t *end)
{
    const struct open_span *span = &log->spans[at];
    if (atomic_load_explicit(&span->category, memory_order_relaxed) != CAT_CPU_OP ||
        atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_CROSSES)
        return false;
    bool fits = begin_above(log, at) <= *end || *end >= log->last_end;
    *end = span_end_in_row(log, at, *end);
    return fits;
}

void span_close_at(struct thread_log *log, uint64_t id, uint64_t end)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed), at = depth;
    while (at > 0 && atomic_load_explicit(&log->spans[at - 1].id, memory_order_relaxed) != id)
        at--;
    if (at == 0)
        return;
    struct open_span *span = &log->spans[at - 1];
    uint64_t in_row = end;
    if (fits_into_row(log, at - 1, &in_row))
        end = in_row;
    else
        span_add_flags(span, REC_CROSSES);
    if (end > log->last_end)
        log->last_end = end;
    if (at < depth && atomic_load_explicit(&span[1].parent, memory_order_relaxed) == id)
        atomic_store_explicit(&span[1].parent,
                              atomic_load_explicit(&span->parent, memory_order_relaxed),
                              memory_order_relaxed);
    take_out_span(log, at - 1, end);
}

/* Index + 1 of the innermost open span with this key; 0: none. */
HOT uint32_t find_open(const struct thread_log *log, const void *key)
{
    uint32_t at = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (at > 0 && span_key(&log->spans[at - 1]) != key)
        at--;
    return at;
}

/* Closes a span that is not the innermost. at: its index + 1. */
static __attribute__((noinline)) uint64_t close_below(struct thread_log *log, const void *key,
                                                      uint32_t at, uint64_t end)
{
    if (any_ended_elsewhere(log)) {
        spans_take_ended(log);
        at = find_open(log, key);
    }
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    end_late_spans(log, at, depth, end); /* before a record is reserved for the span itself */
    close_around(log, at - 1, end);
    log->last_end = end;
    return end;
}

/* Closes any span. end: now; 0: the clock has not been read. */
static __attribute__((noinline)) uint64_t close_any(struct thread_log *log, const void *key,
                                                    uint64_t end)
{
    if (end == 0)
        end = clock_ticks();
    uint32_t at = find_open(log, key);
    if (at == 0)
        return 0; /* it began while nothing was recorded, or was lost, and counted, at its start */
    if (__builtin_expect(at != atomic_load_explicit(&log->depth, memory_order_relaxed), 0))
        return close_below(log, key, at, end);
    const struct open_span *span = &log->spans[at - 1];
    put_span(log, span, end);
    log->text_used = atomic_load_explicit(&span->text_at, memory_order_relaxed);
    log->data_used = span->data_at;
    log->last_end = end;
    atomic_store_explicit(&log->depth, at - 1, memory_order_release);
    return end;
}

/* Fills the record of a span without a text. Copies data in whole slots, which both sides have room
 * for. */
HOT void fill_plain(struct record *r, const struct thread_log *log, const struct open_span *span,
                    uint32_t kinds, uint64_t slots, uint64_t end)
{
    uint64_t data_len = span->data_len;
    const uint8_t *from = log->data + span->data_at;
    r->kinds = kinds << 8 | REC_SPAN;
    r->slots_and_extras = (uint32_t)slots | (kinds >> KINDS_EXTRAS << 24);
    r->start = atomic_load_explicit(&span->start, memory_order_relaxed);
    r->end = end;
    r->id = atomic_load_explicit(&span->id, memory_order_relaxed);
    r->parent = atomic_load_explicit(&span->parent, memory_order_relaxed);
    r->op.sequence = atomic_load_explicit(&span->sequence, memory_order_relaxed);
    r->op.forward_thread = atomic_load_explicit(&span->forward_thread, memory_order_relaxed);
    r->name = atomic_load_explicit(&span->name, memory_order_relaxed);
    r->data_len = (uint32_t)data_len;
    for (struct record *to = r + 1; data_len > 0; to++, from += RECORD_SLOT) {
        memcpy(to, from, RECORD_SLOT);
        data_len -= data_len < RECORD_SLOT ? data_len : RECORD_SLOT;
    }
}

/* Whether the span has this key and no text, as most spans. Any ring then has room for its slots:
 * the smallest has 1024. */
#define PLAIN_DATA 8192u
HOT bool is_plain(const struct open_span *span, const void *key, uint32_t kinds)
{
    return span_key(span) == key &&
           atomic_load_explicit(&span->name, memory_order_relaxed) & NAME_NUMBERED &&
           !(kinds & (uint32_t)REC_CROSSES << KINDS_FLAGS) && span->data_len <= PLAIN_DATA;
}

/* All calls are in close_any(), which is a jump, as in span_open(). */
uint64_t span_close(struct thread_log *log, const void *key)
{
    if (!clock_is_counter())
        return close_any(log, key, 0);
    uint64_t end = clock_counter();
    uint32_t at = atomic_load_explicit(&log->depth, memory_order_relaxed) - 1;
    if (__builtin_expect(at >= SPAN_DEPTH, 0))
        return close_any(log, key, end);
    const struct open_span *span = &log->spans[at];
    uint32_t kinds = atomic_load_explicit(&span->kinds, memory_order_relaxed);
    uint32_t extras = kinds >> KINDS_EXTRAS & EXTRAS_VALUES, bytes = span->data_len;
    if (extras)
        bytes += 8 * extras_count(extras);
    uint64_t slots = 1 + (bytes + RECORD_SLOT - 1) / RECORD_SLOT;
    struct ring *ring = &log->ring;
    if (__builtin_expect(!is_plain(span, key, kinds) || !ring_has(ring, slots), 0))
        return close_any(log, key, end);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct record *r = &ring->base[head & (ring->slots - 1)];
    fill_plain(r, log, span, kinds, slots, end);
    if (extras)
        copy_extras((char *)(r + 1) + span->data_len, extras, log->extras[at]);
    prefetch(ring, head, slots);
    atomic_store_explicit(&ring->head, head + slots, memory_order_release);
    count_loss(&log->records);
    log->data_used = span->data_at;
    log->last_end = end;
    atomic_store_explicit(&log->depth, at, memory_order_release);
    return end;
}

/* Fills the record of an instant or a counter, to be committed. NULL, counted: no room. */
static struct record *put_point(struct thread_log *log, enum record_kind kind, const char *text,
                                uint32_t name, enum record_data data_kind, const void *data,
                                uint32_t data_len, const struct extras *extras)
{
    struct record *r = reserve(log, NULL, name, data_len, extras ? extras->mask : 0);
    uint32_t text_len = name_bytes(name);
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
    if (text && text_len)
        memcpy(r + 1, text, text_len);
    if (data_len)
        memcpy((char *)(r + 1) + text_len, data, data_len);
    char *to = (char *)(r + 1) + text_len + data_len;
    for (unsigned mask = extras ? extras->mask : 0; mask; mask &= mask - 1, to += 8)
        memcpy(to, &extras->value[__builtin_ctz(mask)], 8);
    return r;
}

void spans_abandon(struct thread_log *log)
{
    uint64_t end = clock_ticks();
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (depth > 0) {
        struct open_span *span = &log->spans[--depth];
        span_add_flags(span, REC_UNFINISHED);
        put_span(log, span, end);
    }
    log->text_used = log->data_used = 0;
    atomic_store_explicit(&log->depth, 0, memory_order_release);
}

void emit_instant(struct thread_log *log, enum category category, uint8_t flags, const char *text,
                  uint32_t name, enum record_data data_kind, const void *data, uint32_t data_len,
                  const struct extras *extras)
{
    struct record *r = put_point(log, REC_INSTANT, text, name, data_kind, data, data_len, extras);
    if (!r)
        return;
    r->category = (uint8_t)category;
    r->flags = flags;
    commit(log);
}

void emit_counter(struct thread_log *log, uint8_t flags, const char *text, uint32_t name,
                  const void *data, uint32_t data_len)
{
    struct record *r = put_point(log, REC_COUNTER, text, name, DATA_ARGS, data, data_len, NULL);
    if (!r)
        return;
    r->flags = flags;
    commit(log);
}

/* The counted spans around a node's creation. Marks them as captured, because their work runs when
 * the graph is launched. */
static struct record_node mark_captured(struct thread_log *log, uint32_t depth, bool is_kernel)
{
    struct record_node about = {.is_kernel = is_kernel};
    for (uint32_t i = depth; i-- > 0;) {
        struct open_span *span = &log->spans[i];
        const _Atomic uint64_t *values = log->extras[i];
        uint8_t extras = atomic_load_explicit(&span->extras, memory_order_relaxed);
        if (!(extras & 1u << EXTRA_DTYPE))
            continue;
        uint64_t where = atomic_load_explicit(&values[EXTRA_DTYPE], memory_order_relaxed);
        span_set_extra(log, span, EXTRA_DTYPE, where | WHERE_CAPTURED);
        if (!(extras & 1u << EXTRA_FLOPS))
            continue;
        about.outer = (struct record_counted){
            atomic_load_explicit(&span->id, memory_order_relaxed),
            atomic_load_explicit(&values[EXTRA_FLOPS], memory_order_relaxed),
            extras & 1u << EXTRA_BYTES
                ? atomic_load_explicit(&values[EXTRA_BYTES], memory_order_relaxed)
                : 0,
            where & ~WHERE_CAPTURED};
        if (about.inner.span == 0)
            about.inner = about.outer;
    }
    /* as outside of captures: the library call knows the type better than the formula */
    if ((about.inner.where & 0xffffu) == DTYPE_TF32 && (about.outer.where & 0xffffu) == DTYPE_FLOAT)
        about.outer.where += DTYPE_TF32 - DTYPE_FLOAT;
    return about;
}

/* The id of the communication call that the thread is in; 0: none. */
static uint64_t transfer_around(const struct thread_log *log, uint32_t depth)
{
    for (uint32_t i = depth; i-- > 0;)
        if (atomic_load_explicit(&log->spans[i].category, memory_order_relaxed) == CAT_COLLECTIVE)
            return atomic_load_explicit(&log->spans[i].id, memory_order_relaxed);
    return 0;
}

/* Whether to record a new node. Between windows, graphs of any size are captured and nobody
 * empties the ring. Then only nodes that an operator made, and copies of nodes that may be, are
 * recorded. */
static bool records_node(const struct thread_log *log, bool copy)
{
    static _Atomic bool made; /* an operator has made a node; any thread, relaxed */
    bool inside = atomic_load_explicit(&log->depth, memory_order_relaxed) > 0;
    if (inside && !copy)
        atomic_store_explicit(&made, true, memory_order_relaxed);
    return gate_open(GATE_SPANS) ||
           (copy ? atomic_load_explicit(&made, memory_order_relaxed) : inside);
}

static void wake_at_half(struct thread_log *log)
{
    uint64_t used =
        ring_head(&log->ring) - atomic_load_explicit(&log->ring.tail, memory_order_relaxed);
    uint64_t half = log->ring.slots / 2;
    if (used >= half && used - log->ring.filling < half && !gate_open(GATE_SPANS))
        wake_thread();
}

void emit_graph_node(struct thread_log *log, uint64_t node, uint64_t original, bool is_kernel)
{
    if (!records_node(log, original != 0))
        return;
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    const struct open_span *top = depth ? &log->spans[depth - 1] : NULL;
    while (top && top > log->spans && span_is_cuda_call(top))
        top--; /* the operator, not the captured call */
    uint32_t name = top ? atomic_load_explicit(&top->name, memory_order_relaxed) : 0;
    uint64_t module = top ? module_at(log, (uint32_t)(top - log->spans)) : 0;
    /* a copy takes over the spans of its original */
    struct record_node about = mark_captured(log, original ? 0 : depth, is_kernel);
    bool counted = about.inner.span != 0;
    bool args = !counted && top && !original && top->data_kind == DATA_ARGS; /* XLA's line */
    uint32_t data_len = counted ? (uint32_t)sizeof about : args ? top->data_len : 0;
    struct record *r = reserve(log, NULL, name, data_len, module ? 1u << EXTRA_MODULE : 0);
    if (!r)
        return;
    r->kind = REC_NODE;
    r->category = CAT_CUDA_RUNTIME;
    r->data_kind = counted ? DATA_NODE : args ? DATA_ARGS : DATA_NONE;
    r->flags = 0;
    r->start = r->end = clock_ticks();
    r->id = original ? 0 : transfer_around(log, depth);
    r->parent = top ? atomic_load_explicit(&top->id, memory_order_relaxed) : 0;
    r->node.id = node;
    r->node.original = original;
    char *to = (char *)(r + 1);
    if (name_bytes(name))
        span_copy_text(to, name, log, top);
    to += name_bytes(name);
    memcpy(to, args ? log->data + top->data_at : (const uint8_t *)&about, data_len);
    if (module)
        memcpy(to + data_len, &module, sizeof module);
    commit(log);
    wake_at_half(log);
}

/* The operator that the program called around this point: aten::linear, not the aten::empty inside.
 * In the backward pass the node, not the engine's range around it. NULL: none. */
static const struct open_span *program_operator(const struct thread_log *log)
{
    const struct open_span *found = NULL;
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (depth > 0) {
        const struct open_span *span = &log->spans[--depth];
        if (atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_BORROWED)
            break;
        if (atomic_load_explicit(&span->category, memory_order_relaxed) == CAT_CPU_OP)
            found = span;
        else if (!span_is_cuda_call(span))
            break;
    }
    return found;
}

/* Records REC_MEMORY or REC_OUT_OF_MEMORY, with the name of the span `named` and the thread's
 * module. */
HOT void put_memory(struct thread_log *log, enum record_kind kind, const struct open_span *named,
                    uint64_t address, int64_t bytes, const struct record_memory *state,
                    const struct extras *extras)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    uint64_t module = depth ? module_at(log, depth - 1) : 0;
    uint32_t name = named ? atomic_load_explicit(&named->name, memory_order_relaxed) : 0;
    unsigned mask = (extras ? extras->mask : 0) | (module ? 1u << EXTRA_MODULE : 0);
    struct record *r = reserve(log, NULL, name, (uint32_t)sizeof *state, (uint8_t)mask);
    if (!r)
        return;
    r->kinds = (uint32_t)kind | CAT_MEMORY << 8 | DATA_MEMORY << 16;
    r->start = r->end = clock_ticks();
    r->id = 0;
    r->parent = state->device_type == MEMORY_OF_DRIVER && named
                    ? atomic_load_explicit(&named->parent, memory_order_relaxed)
                    : span_top(log);
    r->memory.address = address;
    r->memory.bytes = bytes;
    char *to = (char *)(r + 1);
    if (__builtin_expect(name_bytes(name), 0))
        span_copy_text(to, name, log, named);
    to += name_bytes(name);
    memcpy(to, state, sizeof *state);
    to += sizeof *state;
    for (; mask; mask &= mask - 1, to += 8) {
        unsigned which = (unsigned)__builtin_ctz(mask);
        uint64_t value = which == EXTRA_MODULE && module ? module : extras->value[which];
        memcpy(to, &value, sizeof value);
    }
    commit(log);
}

void emit_memory(struct thread_log *log, uint64_t address, int64_t bytes,
                 const struct record_memory *state, const struct extras *extras)
{
    put_memory(log, REC_MEMORY, bytes > 0 ? program_operator(log) : NULL, address, bytes, state,
               extras);
}

void emit_out_of_memory(struct thread_log *log, int64_t bytes, const struct record_memory *state,
                        const struct extras *extras)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    bool driver = state->device_type == MEMORY_OF_DRIVER && depth > 0;
    const struct open_span *named = driver ? &log->spans[depth - 1] : program_operator(log);
    put_memory(log, REC_OUT_OF_MEMORY, named, 0, bytes, state, extras);
}
