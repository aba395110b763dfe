/* SPDX-License-Identifier: Apache-2.0 */
/* The common parts of events: beginning, place and time. Only for the .c files of writer/json;
 * others use json.h and json_gpu.h. Pure functions, cprof thread. */
#pragma once

#include "writer/json/json.h"
#include "writer/base/base.h"

#define PLACE_TEXT  48u  /* room for `, "pid": 4294967295, "tid": 4294967295, "ts": ` */
#define PLACES_KEPT 32u  /* a power of two */
#define INLINE_NAME 512u /* names up to this length check the buffer's room once */

/* The constant beginning of an event, padded to be copied as one block. */
struct beginning {
    char text[63];
    uint8_t len;
};

/* clang-format off */
#define BEGINNING(literal) {literal, sizeof(literal) - 1}
/* clang-format on */

static const struct beginning span_begin[CAT_COUNT] = {
#define CATEGORY(id, text)                                                                         \
    [CAT_##id] = BEGINNING("{\"ph\": \"X\", \"cat\": \"" text "\", \"name\": "),
#include "writer/record/categories.def"
#undef CATEGORY
};

static const struct beginning instant_begin[CAT_COUNT] = {
#define CATEGORY(id, text)                                                                         \
    [CAT_##id] = BEGINNING("{\"ph\": \"i\", \"cat\": \"" text "\", \"s\": \"t\", \"name\": "),
#include "writer/record/categories.def"
#undef CATEGORY
};

/* The beginning of every counter. */
static const struct beginning counter_begin = BEGINNING("{\"ph\": \"C\", \"name\": ");

/* Writes the beginning and the name, with `room` bytes left after them. Returns where the event
 * continues; the caller adds to len by end_at(). NULL: no room. */
static inline char *begin_event(struct buf *b, const struct beginning *begin, const char *name,
                                size_t n, size_t room)
{
    if (n > INLINE_NAME) {
        buf_put(b, begin->text, begin->len);
        json_string(b, name, n);
        return buf_room(b, room);
    }
    char *to = buf_room(b, sizeof(begin->text) + STRING_ROOM(n) + room);
    if (!to)
        return NULL;
    memcpy(to, begin->text, sizeof(begin->text));
    return put_string(to + begin->len, name, n);
}

/* The event has been written up to p. */
static inline void end_at(struct buf *b, const char *p)
{
    b->len = (size_t)(p - b->data);
}

/* Removes what was appended since `start` when not all of it fit. */
static inline void whole_or_nothing(struct buf *b, size_t start)
{
    if (b->failed)
        b->len = start;
}

/* The cached text of a row. */
struct place_text {
    uint32_t pid, tid, len; /* len 0: empty */
    char text[PLACE_TEXT];
};

static __attribute__((noinline)) void make_place_text(struct place_text *row,
                                                      const struct json_place *at)
{
    char *p = put_literal(row->text, ", \"pid\": ");
    p = put_u64(p, at->pid);
    p = put_literal(p, ", \"tid\": ");
    p = put_u64(p, at->tid);
    p = put_literal(p, ", \"ts\": ");
    row->pid = at->pid;
    row->tid = at->tid;
    row->len = (uint32_t)(p - row->text);
}

/* Writes pid, tid and ts. Events come from few rows, whose texts are cached and copied as a
 * block. */
static inline char *put_place(char *p, const struct json_place *at)
{
    static struct place_text rows[PLACES_KEPT];
    struct place_text *row = &rows[(at->pid * 5 + at->tid) % PLACES_KEPT];
    if (row->pid != at->pid || row->tid != at->tid || row->len == 0)
        make_place_text(row, at);
    memcpy(p, row->text, sizeof(row->text));
    return put_us(p + row->len, at->start_ns);
}

/* Duration in ns between the two rounded ends, which keeps rows nested. */
static inline int64_t duration_of(const struct json_place *at)
{
    int64_t start = at->start_ns > 0 ? at->start_ns : 0;
    return at->end_ns > start ? at->end_ns - start : 0;
}

static inline char *put_duration(char *p, const struct json_place *at)
{
    p = put_literal(p, ", \"dur\": ");
    return put_us(p, duration_of(at));
}
