/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the spans that are open on all threads, and writes them as unfinished events of a window.
 * cprof thread. */
#include "writer/window/open_spans.h"

#include <string.h>

#include "writer/record/record.h"
#include "writer/sums/sums.h"
#include "writer/base/base.h"
#include "writer/window/window_names.h"

/* Calls each() for every span of the window that is open now, asynchronous ranges included. */
static void each_open(const struct window *w,
                      void (*each)(const struct open_copy *, uint32_t tid, void *), void *arg)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint32_t depth = atomic_load_explicit(&log->depth, memory_order_acquire);
        for (uint32_t i = 0; i < depth && i < SPAN_DEPTH; i++) {
            struct open_copy span;
            if (!open_copy_take(log, i, &span) || span.id == log->last_span)
                break; /* its record is out already, and so are those of the spans inside it */
            if (window_takes(w, span.start, span.flags))
                each(&span, atomic_load_explicit(&log->tid, memory_order_relaxed), arg);
        }
    }
    for (uint32_t i = 0; i < async_places(); i++) {
        struct open_copy range;
        uint32_t tid;
        if (async_copy_take(i, &range, &tid) && window_takes(w, range.start, range.flags))
            each(&range, tid, arg);
    }
}

static void count_one(const struct open_copy *span, uint32_t tid, void *count)
{
    (void)span, (void)tid;
    ++*(uint64_t *)count;
}

bool window_has_open_spans(const struct window *w)
{
    uint64_t n = 0;
    each_open(w, count_one, &n);
    return n != 0;
}

struct put_arg {
    struct window *w;
    const struct window_shared *shared;
    uint64_t now;
    uint64_t ended; /* how many of the spans have ended */
};

/* Writes an open span as an event, cut at `now` or at the window's end, unless its end is known by
 * then. */
static void put_open(const struct open_copy *span, uint32_t tid, void *arg)
{
    struct put_arg *put = arg;
    bool over = span->ended && span->ended <= put->now;
    uint64_t end = over ? span->ended : put->now;
    struct {
        struct record r;
        char text[OPEN_TEXT + OPEN_DATA + sizeof span->extra];
    } copy = {.r = {.kind = REC_SPAN,
                    .category = span->category,
                    .flags = span->flags | (over ? 0 : REC_UNFINISHED),
                    .data_kind = span->data_kind,
                    .data_len = span->data_len,
                    .extras = span->extras,
                    .start = span->start,
                    .end = end > span->start ? end : span->start,
                    .id = span->id,
                    .parent = span->parent,
                    .name = span->name}};
    copy.r.op.sequence = span->sequence;
    copy.r.op.forward_thread = span->forward_thread;
    put->ended += over;
    if (span->flags & REC_CROSSES || (over && span->category != CAT_CPU_OP)) {
        copy.r.kind = REC_ASYNC;
        copy.r.async.tid = tid;
    }
    memcpy(copy.text, span->text, name_bytes(span->name));
    char *extra = copy.text + name_bytes(span->name) + span->data_len;
    if (span->data_len)
        memcpy(extra - span->data_len, span->data, span->data_len);
    for (unsigned mask = span->extras & EXTRAS_VALUES; mask;
         mask &= mask - 1, extra += sizeof(uint64_t))
        memcpy(extra, &span->extra[__builtin_ctz(mask)], sizeof(uint64_t));
    uint32_t row = window_row(&copy.r, tid);
    struct json_place at = window_place(put->w, put->shared, row, copy.r.start, copy.r.end);
    stacks_use(&put->w->stacks, stacks_of(&copy.r));
    char room[RANGE_NAME_ROOM];
    json_record(&put->w->open, &copy.r, window_shown_name(put->w, &copy.r, room), &at,
                put->shared->options->dtype_names, put->shared->options->n_dtypes);
    if (span->start >= put->w->start)
        summary_open(window_summary(put->w, put->shared), &copy.r, &at);
    buf_put(&put->w->open_ids, &span->id, sizeof span->id);
}

void window_read_open(struct window *w, const struct window_shared *shared)
{
    struct put_arg put = {w, shared, clock_ticks(), 0};
    /* records of the window may end after it */
    uint64_t end = w->latest > w->end ? w->latest : w->end;
    if (put.now > end)
        put.now = end;
    buf_reset(&w->open);
    buf_reset(&w->open_ids);
    summary_forget_open(w->summary);
    each_open(w, put_open, &put);
    w->unfinished = w->open_ids.len / sizeof(uint64_t) - put.ended;
}

void window_settle(struct window *w, const struct window_shared *shared)
{
    window_read_open(w, shared);
    w->settled = true;
}

bool window_left_open(const struct buf *open_ids, uint64_t id)
{
    for (size_t i = 0; i < open_ids->len; i += sizeof id)
        if (memcmp(open_ids->data + i, &id, sizeof id) == 0)
            return true;
    return false;
}
