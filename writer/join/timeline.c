/* SPDX-License-Identifier: Apache-2.0 */
/* The recent spans of a thread, for lookups by time. */
#include "writer/join/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "writer/base/base.h"
#include "writer/json/json.h"
#include "writer/join/ranges.h"
#include "writer/stack/stack.h"

#define HASH       1024u /* threads by tid */
#define NAMED_MOST 8192u /* bytes of a name with its source line */
/* bytes of a note and its place in by_id */
#define PLACE (sizeof(struct note) + sizeof(uint32_t))

static struct timeline *first;
static struct timeline *by_tid[HASH];

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void unmap_ring(struct timeline *t)
{
    munmap(t->notes, t->room * PLACE);
    space_give_back(t->room * PLACE);
}

/* Maps a ring of at most `room` notes: fewer where the address space is limited. False: no memory;
 * the ring is as before. */
static bool map_ring(struct timeline *t, uint32_t room)
{
    uint64_t bytes = room * PLACE;
    if (space_limited() && !space_take(&bytes, 0))
        return false;
    struct note *notes = map(bytes);
    if (!notes) {
        space_give_back(bytes);
        return false;
    }
    t->room = (uint32_t)(bytes / PLACE);
    t->notes = notes;
    t->by_id = (uint32_t *)(notes + t->room);
    return true;
}

static void free_timeline(struct timeline *t)
{
    unmap_ring(t);
    if (t->node_times)
        munmap(t->node_times, TIMELINE_NODES * sizeof *t->node_times);
    free(t);
}

static struct timeline *find_timeline(uint32_t tid)
{
    struct timeline *t = by_tid[tid % HASH];
    while (t && t->tid != tid)
        t = t->chain;
    return t;
}

struct timeline *timeline_of(uint32_t tid)
{
    struct timeline *t = find_timeline(tid);
    if (t) {
        t->idle = 0;
        return t;
    }
    t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->tid = tid;
    if (!map_ring(t, TIMELINE_NOTES)) {
        free(t);
        return NULL;
    }
    t->chain = by_tid[tid % HASH];
    by_tid[tid % HASH] = t;
    t->next = first;
    first = t;
    return t;
}

struct timeline *timeline_first(void)
{
    return first;
}

static struct note *note_at(const struct timeline *t, uint64_t at)
{
    return &t->notes[at & (t->room - 1)];
}

static uint64_t oldest(const struct timeline *t)
{
    return t->ended > t->room ? t->ended - t->room : 0;
}

static void remember_time(struct timeline *t, uint64_t at)
{
    t->by_id[note_at(t, at)->id & (t->room - 1)] = (uint32_t)(at & (t->room - 1));
}

/* Doubles the ring. Not in a limited address space: other threads' rings need what is left. */
static bool grow_timeline(struct timeline *t)
{
    struct timeline before = *t;
    if (t->room >= TIMELINE_MOST_NOTES || space_limited() || !map_ring(t, t->room * 2))
        return false;
    for (uint64_t at = oldest(&before); at < t->ended; at++) {
        *note_at(t, at) = *note_at(&before, at);
        remember_time(t, at);
    }
    unmap_ring(&before);
    return true;
}

struct note *timeline_oldest(struct timeline *t)
{
    struct note *n = t->ended >= oldest(t) + t->room ? note_at(t, t->ended) : NULL;
    return n && n->state == NOTE_CALL && grow_timeline(t) ? NULL : n;
}

static void count_work(struct note *n, uint64_t where, uint64_t flops, uint64_t bytes)
{
    const uint64_t most = (1ull << 40) - 1;
    n->where = (uint32_t)where;
    n->flops = flops;
    n->bytes = bytes < most ? bytes : most;
}

struct note *timeline_add(struct timeline *t, const struct record *r)
{
    struct note *n = note_at(t, t->ended);
    uint64_t last = t->ended ? note_at(t, t->ended - 1)->end : 0;
    *n = (struct note){
        .id = r->id,
        .parent = r->parent,
        .start = r->start,
        /* raised to the end before, because lookups search by end in order; a span that ended on
         * another thread is reported late, by the next range */
        .end = r->end > last ? r->end : last,
        .range = RANGE_UNKNOWN,
        .stack = stacks_of(r),
        .category = r->category,
        .state = NOTE_SPAN,
        .flags = r->flags};
    if (r->extras & 1u << EXTRA_FLOPS)
        count_work(n, record_extra(r, EXTRA_DTYPE, 0), record_extra(r, EXTRA_FLOPS, 0),
                   record_extra(r, EXTRA_BYTES, 0));
    remember_time(t, t->ended);
    t->ended++;
    return n;
}

/* The thread's log, if it had one at `ticks`; 0: what the last look found. Looks again only for a
 * time after the last look: to look through all logs for each record takes long. */
static struct thread_log *log_at(struct timeline *t, uint64_t ticks)
{
    if (t->log && atomic_load_explicit(&t->log->tid, memory_order_relaxed) != t->tid)
        t->log = NULL; /* the log went to another thread */
    if (!t->log && ticks >= t->looked) {
        t->looked = clock_ticks();
        for (struct thread_log *log = thread_log_first(); log && !t->log; log = log->next)
            if (atomic_load_explicit(&log->tid, memory_order_relaxed) == t->tid &&
                atomic_load_explicit(&log->state, memory_order_acquire) != THREAD_FREE)
                t->log = log; /* also one that has ended: it may not be empty yet */
    }
    return t->log;
}

/* The fields by which an open span is recognized. A full copy takes longer and is made only of the
 * span that matches. */
struct glimpse {
    uint64_t id, start;
    uint8_t category;
};

static struct glimpse glimpse_of(const struct open_span *span)
{
    return (struct glimpse){atomic_load_explicit(&span->id, memory_order_relaxed),
                            atomic_load_explicit(&span->start, memory_order_relaxed),
                            atomic_load_explicit(&span->category, memory_order_relaxed)};
}

/* The value of the item "source", which nvtx_payload.c writes. Length 0: none. */
static struct text source_in(const uint8_t *args, uint32_t n)
{
    const uint8_t *end = args + n;
    struct json_arg a;
    while (json_next_arg(&args, end, &a))
        if (a.type == ARG_TEXT && a.key_len == 6 && memcmp(a.key, "source", 6) == 0)
            return (struct text){(const char *)a.value, (uint32_t)a.value_len};
    return (struct text){NULL, 0};
}

void timeline_name(struct note *note, struct text name, const uint8_t *args, uint32_t n)
{
    char both[NAMED_MOST];
    struct text source = {NULL, 0};
    if (n && note->category == CAT_USER_ANNOTATION && memmem(name.at, name.len, "hlo_op=", 7))
        source = source_in(args, n);
    if (source.len && name.len + source.len <= sizeof both) {
        memcpy(both, name.at, name.len);
        memcpy(both + name.len, source.at, source.len);
        note->name = names_keep(both, name.len + source.len);
        note->source_len = note->name ? source.len : 0;
    } else {
        note->name = names_keep(name.at, name.len);
        note->source_len = 0;
    }
    note->name_len = note->name ? name.len : 0;
}

static void note_open(const struct open_copy *span, struct note *out)
{
    *out = (struct note){.id = span->id,
                         .parent = span->parent,
                         .start = span->start,
                         .end = UINT64_MAX,
                         .range = RANGE_UNKNOWN,
                         .category = span->category,
                         .state = NOTE_SPAN,
                         .flags = span->flags};
    if (span->extras & 1u << EXTRA_FLOPS)
        count_work(out, span->extra[EXTRA_DTYPE], span->extra[EXTRA_FLOPS],
                   span->extra[EXTRA_BYTES]);
    if (span->category != CAT_CPU_OP) {
        bool args = span->data_kind == DATA_ARGS;
        timeline_name(out, open_copy_name(span), span->data, args ? span->data_len : 0);
    }
}

/* Copies the innermost of the first `depth` open spans that `wanted` accepts. False: none, or the
 * owner changed it meanwhile. */
static bool copy_where(struct timeline *t, const struct thread_log *log, uint32_t depth,
                       bool (*wanted)(const struct glimpse *, uint64_t), uint64_t arg,
                       struct note *out)
{
    for (uint32_t i = depth; i > 0; i--) {
        struct open_copy span;
        struct glimpse seen = glimpse_of(&log->spans[i - 1]);
        if (!wanted(&seen, arg) || !open_copy_take(log, i - 1, &span))
            continue;
        seen = (struct glimpse){span.id, span.start, span.category};
        if (!wanted(&seen, arg)) /* replaced meanwhile */
            continue;
        note_open(&span, out);
        t->open_at = i - 1;
        return true;
    }
    return false;
}

static bool open_span_where(struct timeline *t, bool (*wanted)(const struct glimpse *, uint64_t),
                            uint64_t arg, struct note *out)
{
    const struct thread_log *log = log_at(t, 0);
    uint32_t depth = log ? atomic_load_explicit(&log->depth, memory_order_acquire) : 0;
    return copy_where(t, log, depth < SPAN_DEPTH ? depth : SPAN_DEPTH, wanted, arg, out);
}

static bool has_id(const struct glimpse *span, uint64_t id)
{
    return span->id == id;
}

static bool began_by(const struct glimpse *span, uint64_t ticks)
{
    return span->start <= ticks;
}

static bool is_call_begun_by(const struct glimpse *span, uint64_t ticks)
{
    return span->start <= ticks &&
           (span->category == CAT_CUDA_RUNTIME || span->category == CAT_CUDA_DRIVER);
}

/* Tries the span below the last answer first: a program that never ends its ranges has hundreds
 * open, and each launch asks for all. */
static bool span_open_at(struct timeline *t, uint64_t id, struct note *out)
{
    const struct thread_log *log = log_at(t, 0);
    uint32_t depth = log ? atomic_load_explicit(&log->depth, memory_order_acquire) : 0;
    uint32_t below = t->open_at < depth ? t->open_at : 0;
    if (below && atomic_load_explicit(&log->spans[below - 1].id, memory_order_relaxed) == id &&
        copy_where(t, log, below, has_id, id, out))
        return true;
    return open_span_where(t, has_id, id, out);
}

struct note *timeline_span(struct timeline *t, uint64_t id, struct note *open)
{
    struct note *n = note_at(t, t->by_id[id & (t->room - 1)]);
    if (id != 0 && n->id == id)
        return n;
    return id != 0 && span_open_at(t, id, open) ? open : NULL;
}

struct note *timeline_counted(struct timeline *t, uint64_t id, struct note *open)
{
    for (unsigned i = 0; i < SPAN_DEPTH; i++) {
        struct note *n = timeline_span(t, id, open);
        if (!n || n->where)
            return n;
        if (!(n->flags & REC_IN_COUNTED))
            return NULL;
        id = n->parent;
    }
    return NULL;
}

bool timeline_knows(const struct timeline *t, uint64_t ticks)
{
    if (t->ended && note_at(t, t->ended - 1)->start >= ticks)
        return true;
    struct timeline *mutable = (struct timeline *)t;
    struct thread_log *log = log_at(mutable, ticks);
    if (!log)
        return true;
    /* A hook's span stays open until its record is in the ring, so the order matters: first the
     * span, then the ring. */
    struct note open;
    if (open_span_where(mutable, is_call_begun_by, ticks, &open))
        return false;
    return ring_head(&log->ring) == atomic_load_explicit(&log->ring.tail, memory_order_relaxed);
}

bool timeline_is_drained(struct timeline *t)
{
    struct thread_log *log = log_at(t, 0);
    return !log ||
           ring_head(&log->ring) == atomic_load_explicit(&log->ring.tail, memory_order_relaxed);
}

/* Position of the first note that ends after `ticks`; t->ended: none. */
static uint64_t first_ending_after(const struct timeline *t, uint64_t ticks)
{
    uint64_t low = oldest(t), high = t->ended;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (note_at(t, middle)->end > ticks)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool timeline_at(struct timeline *t, uint64_t ticks, struct moment *out)
{
    uint64_t at = first_ending_after(t, ticks);
    *out = (struct moment){.before = at > oldest(t) ? note_at(t, at - 1)->end : 0,
                           .after = UINT64_MAX};
    if (at == t->ended) {
        bool open = open_span_where(t, began_by, ticks, &out->open);
        out->lost = !timeline_is_drained(t); /* read last: an inner span may have ended meanwhile */
        return open;
    }
    struct note *n = note_at(t, at);
    while (n && n->start > ticks) {
        out->after = n->start;
        out->lost = n->parent != 0;
        n = timeline_span(t, n->parent, &out->open);
    }
    out->lost &= n == NULL;
    if (!n)
        out->open.id = 0;
    else if (n != &out->open)
        out->note = n;
    return n != NULL;
}

struct note *timeline_note(struct timeline *t, uint64_t *at)
{
    if (*at < oldest(t))
        *at = oldest(t);
    return *at < t->ended ? note_at(t, *at) : NULL;
}

void timeline_add_node(struct timeline *t, uint64_t ticks)
{
    if (!t->node_times)
        t->node_times = map(TIMELINE_NODES * sizeof *t->node_times);
    if (t->node_times)
        t->node_times[t->nodes++ % TIMELINE_NODES] = ticks;
}

bool timeline_made_node(const struct timeline *t, uint64_t start, uint64_t end)
{
    uint64_t kept = t->nodes < TIMELINE_NODES ? t->nodes : TIMELINE_NODES;
    uint64_t low = t->nodes - kept, high = t->nodes; /* searches the first at or after start */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (t->node_times[middle % TIMELINE_NODES] >= start)
            high = middle;
        else
            low = middle + 1;
    }
    return low < t->nodes && t->node_times[low % TIMELINE_NODES] <= end;
}

/* Sets each timeline's log, for is_over(): one by one, each would search all logs. */
static void find_logs(void)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        struct timeline *t =
            atomic_load_explicit(&log->state, memory_order_acquire) == THREAD_FREE
                ? NULL
                : find_timeline(atomic_load_explicit(&log->tid, memory_order_relaxed));
        if (t)
            t->log = log;
    }
}

static bool is_over(const struct timeline *t)
{
    return t->calls_waiting == 0 &&
           (!t->log || t->log->tid != t->tid || atomic_load(&t->log->state) == THREAD_FREE);
}

/* Gives the ring's pages back to the kernel. */
static void release_pages(struct timeline *t)
{
    if (t->ended == 0 || t->calls_waiting)
        return;
    madvise(t->notes, t->room * PLACE, MADV_DONTNEED);
    t->ended = 0;
}

/* Removes the timeline *link from both lists and frees it. */
static void drop_timeline(struct timeline **link)
{
    struct timeline *t = *link, **chain = &by_tid[t->tid % HASH];
    *link = t->next;
    while (*chain != t)
        chain = &(*chain)->chain;
    *chain = t->chain;
    free_timeline(t);
}

void timeline_forget(void)
{
    struct timeline **link = &first;
    find_logs();
    while (*link) {
        struct timeline *t = *link;
        if (is_over(t)) {
            drop_timeline(link);
            continue;
        }
        release_pages(t);
        link = &t->next;
    }
}

void timeline_sweep(void)
{
    struct timeline **link = &first;
    find_logs();
    while (*link) {
        struct timeline *t = *link;
        if (++t->idle > 1 && is_over(t))
            drop_timeline(link);
        else
            link = &t->next;
    }
}
