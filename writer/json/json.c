/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a record as Chrome JSON. Each event has Kineto's shape, key by key, for its readers (HTA,
 * TensorBoard's plugin, TraceLens). An event is appended whole or not at all. Pure functions, cprof
 * thread. */
#include "writer/json/json.h"
#include "writer/json/json_event.h"
#include "writer/json/json_extras.h"
#include "writer/json/json_inputs.h"

#include <stdbool.h>

/* most bytes of an event, without name, category text, shapes and args */
#define EVENT_ROOM 512u

static const char *const category_text[CAT_COUNT] = {
#define CATEGORY(id, text) [CAT_##id] = text,
#include "writer/record/categories.def"
#undef CATEGORY
};

/* Appends the items of DATA_ARGS. Returns as json_args(). */
static bool put_args(struct buf *b, const struct record *r, const char *const *names,
                     unsigned n_names, bool first)
{
    const uint8_t *at = record_data(r);
    const uint8_t *end = at + r->data_len;
    struct json_arg a;
    first = json_args(b, at, r->data_len, first);
    while (json_next_arg(&at, end, &a)) {
        if (a.type == ARG_SHAPES && a.value_len != 0)
            first = json_inputs(b, a.value, a.value_len, names, n_names, first);
    }
    return first;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Begins an event with a category text of the program. instant: ph i instead of X. */
static char *begin_own_category(struct buf *b, bool instant, const struct json_arg *category,
                                struct text name)
{
    buf_puts(b, instant ? "{\"ph\": \"i\", \"cat\": " : "{\"ph\": \"X\", \"cat\": ");
    json_string(b, (const char *)category->value, category->value_len);
    buf_puts(b, instant ? ", \"s\": \"t\", \"name\": " : ", \"name\": ");
    json_string(b, name.at, name.len);
    return buf_room(b, EVENT_ROOM);
}

/* Finds the item of a record's args that gives its category. */
static bool own_category(const struct record *r, struct json_arg *category)
{
    if (r->data_kind != DATA_ARGS)
        return false;
    const uint8_t *at = record_data(r);
    const uint8_t *end = at + r->data_len;
    while (json_next_arg(&at, end, category)) {
        if (json_arg_is_category(category))
            return category->value_len != 0;
    }
    return false;
}

/* A record's category; CAT_USER_ANNOTATION for unknown values. */
static enum category category_of(const struct record *r)
{
    return r->category < CAT_COUNT ? (enum category)r->category : CAT_USER_ANNOTATION;
}

/* Writes the args that Kineto gives to every operator and annotation. */
static char *put_operator(char *p, const struct record *r)
{
    if (r->id != 0) {
        p = put_literal(p, "\"External id\": ");
        p = put_id(p, r->id);
        p = put_literal(p, ", ");
    }
    if (r->op.sequence >= 0) {
        p = put_literal(p, "\"Sequence number\": ");
        p = put_i64(p, r->op.sequence);
        p = put_literal(p, ", \"Fwd thread id\": ");
        p = put_id(p, r->op.forward_thread);
        p = put_literal(p, ", ");
    }
    return put_literal(p, "\"Record function id\": 0");
}

/* Appends the bandwidth of a blocking transfer. */
static void put_bandwidth(struct buf *b, const struct record *r, const struct json_place *at)
{
    struct transfer t;
    bool may_be = r->category == CAT_COLLECTIVE ||
                  (r->category == CAT_USER_ANNOTATION && (r->flags & REC_MARKER) == 0);
    if (may_be && (r->flags & REC_UNFINISHED) == 0 &&
        collective_stats_read(record_data(r), r->data_len, &t) && t.blocking)
        collective_stats_bandwidth(b, &t, duration_of(at));
}

/* X: a span. */
static void put_span(struct buf *b, const struct record *r, struct text name,
                     const struct json_place *at, const char *const *dtype_names, unsigned n_dtypes)
{
    enum category category = category_of(r);
    struct json_arg own;
    char *p = own_category(r, &own)
                  ? begin_own_category(b, false, &own, name)
                  : begin_event(b, &span_begin[category], name.at, name.len, EVENT_ROOM);
    if (!p)
        return;
    p = put_place(p, at);
    p = put_duration(p, at);
    p = put_literal(p, ", \"args\": {");
    const char *none = p;
    if (category != CAT_CUDA_RUNTIME && category != CAT_CUDA_DRIVER) {
        p = put_operator(p, r);
    } else if (r->parent != 0) {
        p = put_literal(p, "\"External id\": ");
        p = put_id(p, r->parent);
    }
    if (r->flags & REC_UNFINISHED) {
        p = p == none ? p : put_literal(p, ", ");
        p = put_literal(p, "\"finished\": \"false\"");
    }
    bool first = p == none;
    if (r->data_kind == DATA_SHAPES) {
        end_at(b, p);
        first = json_inputs(b, record_data(r), r->data_len, dtype_names, n_dtypes, first);
        p = buf_room(b, EVENT_ROOM);
    } else if (r->data_kind == DATA_ARGS) {
        end_at(b, p);
        first = put_args(b, r, dtype_names, n_dtypes, first);
        put_bandwidth(b, r, at);
        p = buf_room(b, EVENT_ROOM);
    }
    if (r->extras != 0 && p) {
        end_at(b, p);
        json_extras(b, r, first);
        json_extras_end(b, r);
    } else if (p) {
        end_at(b, put_literal(p, "}},\n"));
    }
}

/* i: an instant, with the program's args. */
static void put_instant(struct buf *b, const struct record *r, const struct json_place *at)
{
    struct text name = record_name(r);
    struct json_arg own;
    char *p = own_category(r, &own)
                  ? begin_own_category(b, true, &own, name)
                  : begin_event(b, &instant_begin[category_of(r)], name.at, name.len, EVENT_ROOM);
    if (!p)
        return;
    p = put_place(p, at);
    end_at(b, put_literal(p, ", \"args\": {"));
    bool first = r->data_kind != DATA_ARGS || json_args(b, record_data(r), r->data_len, true);
    json_extras(b, r, first);
    json_extras_end(b, r);
}

/* Appends one end of an asynchronous range up to its place: phase, category, id, name. */
static void begin_async(struct buf *b, const char *phase, const struct record *r, struct text name,
                        const struct json_place *at)
{
    static const char digits[] = "0123456789abcdef";
    char id[16];
    size_t n = sizeof(id);
    uint64_t rest = r->id;
    do {
        id[--n] = digits[rest & 15];
        rest >>= 4;
    } while (rest != 0);
    buf_puts(b, phase);
    struct json_arg own;
    if (own_category(r, &own)) {
        json_string(b, (const char *)own.value, own.value_len);
    } else {
        const char *category = category_text[category_of(r)];
        json_string(b, category, strlen(category));
    }
    buf_puts(b, ", \"id2\": {\"local\": \"0x");
    buf_put(b, id + n, sizeof(id) - n);
    buf_puts(b, "\"}, \"name\": ");
    json_string(b, name.at, name.len);
    char *p = buf_room(b, EVENT_ROOM);
    if (p)
        end_at(b, put_place(p, at));
}

/* b and e: a range that does not nest in its thread's row. Each end is on the thread where it
 * happened. */
static void put_async(struct buf *b, const struct record *r, struct text name,
                      const struct json_place *at, const char *const *dtype_names,
                      unsigned n_dtypes)
{
    struct json_place begin = *at, end = *at;
    if (r->async.tid != 0)
        begin.tid = (uint32_t)r->async.tid;
    end.start_ns += duration_of(at);
    begin_async(b, "{\"ph\": \"b\", \"cat\": ", r, name, &begin);
    buf_puts(b, ", \"args\": {");
    bool unfinished = r->flags & REC_UNFINISHED;
    if (unfinished)
        buf_puts(b, "\"finished\": \"false\"");
    if (r->data_kind == DATA_ARGS)
        put_args(b, r, dtype_names, n_dtypes, !unfinished);
    json_extras_end(b, r);
    begin_async(b, "{\"ph\": \"e\", \"cat\": ", r, name, &end);
    buf_puts(b, "},\n");
}

/* C: an event with the one series `key`. A key that repeats the name becomes "value". */
static void put_series(struct buf *b, const struct record *r, const struct json_place *at,
                       const struct json_arg *series, bool only)
{
    struct text name = record_name(r);
    char *p = begin_event(b, &counter_begin, name.at, name.len, EVENT_ROOM);
    if (!p)
        return;
    p = put_place(p, at);
    end_at(b, put_literal(p, ", \"args\": {"));
    bool same = series->key_len == name.len && memcmp(series->key, name.at, series->key_len) == 0;
    if (series->key_len == 0 || (only && same))
        buf_puts(b, "\"value\"");
    else
        json_string(b, series->key, series->key_len);
    buf_put(b, ": ", 2);
    json_arg_value(b, series);
    buf_put(b, "}},\n", 4);
}

/* True for values that a counter can show: NaN and Infinity make Perfetto's importer loop for
 * ever. */
static bool is_number(const struct json_arg *a)
{
    if (a->type == ARG_REAL) {
        double v;
        memcpy(&v, a->value, sizeof(v));
        return __builtin_isfinite(v);
    }
    return a->type == ARG_INT;
}

static void put_counter(struct buf *b, const struct record *r, const struct json_place *at)
{
    if (r->data_kind != DATA_ARGS)
        return;
    const uint8_t *begin = record_data(r);
    const uint8_t *end = begin + r->data_len;
    const uint8_t *in = begin;
    struct json_arg a;
    unsigned items = 0;
    while (json_next_arg(&in, end, &a))
        items += !json_arg_is_category(&a);
    in = begin;
    while (json_next_arg(&in, end, &a)) {
        if (is_number(&a))
            put_series(b, r, at, &a, items == 1);
    }
}

struct text json_range_name(struct text name, char room[RANGE_NAME_ROOM])
{
    const size_t head = sizeof STEP_NAME - 1, shown = sizeof STEP_RANGE_NAME - 1;
    if (name.len < head || memcmp(name.at, STEP_NAME, head) != 0)
        return name;
    size_t rest = name.len - head;
    rest = rest < RANGE_NAME_ROOM - shown ? rest : RANGE_NAME_ROOM - shown;
    memcpy(room, STEP_RANGE_NAME, shown);
    memcpy(room + shown, name.at + head, rest);
    return (struct text){room, (uint32_t)(shown + rest)};
}

void json_record(struct buf *b, const struct record *r, struct text name,
                 const struct json_place *at, const char *const *dtype_names, unsigned n_dtypes)
{
    size_t start = b->len;
    switch ((enum record_kind)r->kind) {
    case REC_SPAN:
        put_span(b, r, name, at, dtype_names, n_dtypes);
        break;
    case REC_INSTANT:
        put_instant(b, r, at);
        break;
    case REC_COUNTER:
        put_counter(b, r, at);
        break;
    case REC_ASYNC:
        put_async(b, r, name, at, dtype_names, n_dtypes);
        break;
    case REC_MEMORY:
        json_memory(b, r, at);
        break;
    case REC_OUT_OF_MEMORY: /* written by window_memory.c, with the holders of memory */
    case REC_NODE:
    case REC_PAD:
        break;
    }
    whole_or_nothing(b, start);
}

/* Appends one end of a flow; tail follows its name. */
static void put_flow_end(struct buf *b, const struct beginning *begin, const char *kind,
                         uint64_t id, const struct json_place *at, const char *tail)
{
    buf_put(b, begin->text, begin->len);
    json_uint(b, id & INT64_MAX);
    char *p = buf_room(b, EVENT_ROOM);
    if (!p)
        return;
    end_at(b, put_place(p, at));
    size_t n = strlen(kind);
    buf_puts(b, ", \"cat\": ");
    json_string(b, kind, n);
    buf_puts(b, ", \"name\": ");
    json_string(b, kind, n);
    buf_puts(b, tail);
}

void json_flow(struct buf *b, const char *kind, uint64_t id, const struct json_place *from,
               const struct json_place *to)
{
    static const struct beginning out = BEGINNING("{\"ph\": \"s\", \"id\": ");
    static const struct beginning in = BEGINNING("{\"ph\": \"f\", \"id\": ");
    size_t start = b->len;
    put_flow_end(b, &out, kind, id, from, "},\n");
    put_flow_end(b, &in, kind, id, to, ", \"bp\": \"e\"},\n");
    whole_or_nothing(b, start);
}

/* Appends an M event up to the brace of its args. */
static void begin_meta(struct buf *b, const char *kind, uint32_t pid, uint32_t tid)
{
    static const struct beginning begin = BEGINNING("{\"ph\": \"M\", \"name\": ");
    static const struct json_place zero;
    struct json_place at = zero;
    at.pid = pid;
    at.tid = tid;
    char *p = begin_event(b, &begin, kind, strlen(kind), EVENT_ROOM);
    if (p) {
        p = put_place(p, &at);
        end_at(b, put_literal(p, ", \"args\": {"));
    }
}

void json_meta_text(struct buf *b, const char *kind, uint32_t pid, uint32_t tid, const char *key,
                    const char *text, size_t len)
{
    if (len == 0)
        return;
    size_t start = b->len;
    begin_meta(b, kind, pid, tid);
    json_string(b, key, strlen(key));
    buf_put(b, ": ", 2);
    json_string(b, text, len);
    buf_put(b, "}},\n", 4);
    whole_or_nothing(b, start);
}

void json_meta_number(struct buf *b, const char *kind, uint32_t pid, uint32_t tid,
                      int64_t sort_index)
{
    size_t start = b->len;
    begin_meta(b, kind, pid, tid);
    buf_puts(b, "\"sort_index\": ");
    json_int(b, sort_index);
    buf_put(b, "}},\n", 4);
    whole_or_nothing(b, start);
}

void json_span(struct buf *b, enum category category, const char *name, const struct json_place *at,
               const char *args)
{
    size_t start = b->len;
    unsigned row = (unsigned)category < CAT_COUNT ? (unsigned)category : CAT_USER_ANNOTATION;
    char *p = begin_event(b, &span_begin[row], name, strlen(name), EVENT_ROOM);
    if (p) {
        p = put_place(p, at);
        p = put_duration(p, at);
        end_at(b, put_literal(p, ", \"args\": {"));
    }
    buf_puts(b, args);
    buf_put(b, "}},\n", 4);
    whole_or_nothing(b, start);
}
