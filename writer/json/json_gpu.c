/* SPDX-License-Identifier: Apache-2.0 */
/* GPU records as Chrome JSON text. Keys, order and units are Kineto's (libkineto's CuptiActivity).
 * Unknown values are left out or -1, never invented. Pure functions, cprof thread. */
#include "writer/json/json_gpu.h"
#include "writer/json/json_event.h"
#include "writer/record/record.h"
#include "writer/stack/stack.h"

#include <stdbool.h>

/* Most bytes of an event without its name. A graph's kernel with the longest numbers takes 900. */
#define GPU_ROOM 1024u

/* ---- pieces ---------------------------------------------------------------------------------- */

/* clang-format off */
#define TEXT(literal) {literal, sizeof(literal) - 1}
/* clang-format on */

/* The record's name, or `other` if it has none. */
static struct text name_or(const struct gpu_record *r, struct text other)
{
    if (!r->name || r->name_len == 0)
        return other;
    return (struct text){r->name, r->name_len};
}

/* Writes a literal such as `, "stream": ` and a number. */
#define put_number(p, literal, value) put_u64(put_literal(p, literal), (value))

/* Writes a literal and a 32-bit number; -1 for GPU_NONE. */
#define put_ordinal(p, literal, value) put_some(put_literal(p, literal), (value))

/* Writes the number of a device, context, stream or event; -1 for GPU_NONE. */
static inline char *put_some(char *p, uint32_t value)
{
    return value != GPU_NONE ? put_u64(p, value) : put_literal(p, "-1");
}

/* Writes a number >= 0 with one to six decimals, at most 9e18. */
static char *put_decimal(char *p, double value)
{
    if (value >= 1e12)
        return put_literal(put_u64(p, (uint64_t)(value < 9e18 ? value : 9e18)), ".0");
    uint64_t scaled = (uint64_t)(value * 1e6 + 0.5);
    uint64_t rest = scaled % 1000000;
    unsigned places = 6;
    p = put_u64(p, scaled / 1000000);
    while (places > 1 && rest % 10 == 0) {
        rest /= 10;
        places--;
    }
    *p++ = '.';
    return put_digits(p, rest, places);
}

/* Writes `"External id": n, ` unless it is 0. */
static inline char *put_external_id(char *p, uint64_t id)
{
    if (id != 0) {
        p = put_literal(p, "\"External id\": ");
        p = put_id(p, id);
        p = put_literal(p, ", ");
    }
    return p;
}

/* Writes device, context, stream and correlation, in this order. */
static inline char *put_where(char *p, const struct gpu_record *r)
{
    p = put_ordinal(p, "\"device\": ", r->device);
    p = put_ordinal(p, ", \"context\": ", r->context);
    p = put_ordinal(p, ", \"stream\": ", r->stream);
    return put_number(p, ", \"correlation\": ", r->correlation);
}

/* Writes graph and node of the record, if any. */
static inline char *put_graph(char *p, const struct gpu_record *r)
{
    if (r->graph != 0 || r->node != 0)
        p = put_number(p, ", \"graph id\": ", r->graph);
    if (r->node != 0) {
        p = put_literal(p, ", \"graph node id\": ");
        p = put_id(p, r->node);
    }
    return p;
}

/* Writes the hardware channel. */
static inline char *put_channel(char *p, uint32_t channel, uint32_t type)
{
    p = put_number(p, ", \"channel\": ", channel);
    return put_number(p, ", \"channel_type\": ", type);
}

/* Writes [x, y, z]. */
static inline char *put_triple(char *p, const int32_t *v)
{
    *p++ = '[';
    p = put_i64(p, v[0]);
    p = put_literal(p, ", ");
    p = put_i64(p, v[1]);
    p = put_literal(p, ", ");
    p = put_i64(p, v[2]);
    *p++ = ']';
    return p;
}

/* Begins an X event up to the brace of its args. NULL: no room. */
static inline char *begin_span(struct buf *b, enum category category, struct text name,
                               const struct json_place *at)
{
    char *p = begin_event(b, &span_begin[category], name.at, name.len, GPU_ROOM);
    if (!p)
        return NULL;
    p = put_place(p, at);
    p = put_duration(p, at);
    return put_literal(p, ", \"args\": {");
}

/* Ends an event. p: written so far; NULL: it does not fit. start: where it began. */
static inline void end_event(struct buf *b, size_t start, char *p)
{
    if (p)
        end_at(b, put_literal(p, "}},\n"));
    whole_or_nothing(b, start);
}

/* ---- work of the device ---------------------------------------------------------------------- */

/* The words of CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind. */
static const char *const copy_kinds[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
static const char *const memory_kinds[] = {"Unknown",       "Pageable",      "Pinned",
                                           "Device",        "Array",         "Managed",
                                           "Device Static", "Managed Static"};

static const char *copy_word(uint8_t kind)
{
    return copy_kinds[kind < sizeof(copy_kinds) / sizeof(*copy_kinds) ? kind : 0];
}

static const char *memory_word(uint8_t kind)
{
    return memory_kinds[kind < sizeof(memory_kinds) / sizeof(*memory_kinds) ? kind : 0];
}

/* Copies a text that is shorter than the room. Returns the end. */
static char *put_word(char *to, const char *word)
{
    size_t n = strlen(word);
    return (char *)memcpy(to, word, n) + n;
}

#define MADE_NAME JSON_NAME_ROOM /* most bytes of a name made here */

/* Kineto's name of a copy: Memcpy HtoD (Pageable -> Device). HTA takes the kind from its first
 * eleven characters. */
static struct text copy_name(char room[MADE_NAME], const struct gpu_record *r)
{
    char *p = put_literal(room, "Memcpy ");
    p = put_word(p, copy_word(r->copy.kind));
    p = put_literal(p, " (");
    p = put_word(p, memory_word(r->copy.from_kind));
    p = put_literal(p, " -> ");
    p = put_word(p, memory_word(r->copy.to_kind));
    *p++ = ')';
    return (struct text){room, (uint32_t)(p - room)};
}

/* Kineto's name of a fill: Memset (Device). */
static struct text fill_name(char room[MADE_NAME], const struct gpu_record *r)
{
    char *p = put_literal(room, "Memset (");
    p = put_word(p, memory_word(r->copy.to_kind));
    *p++ = ')';
    return (struct text){room, (uint32_t)(p - room)};
}

static struct text graph_name(char room[MADE_NAME], const struct gpu_record *r)
{
    char *p = put_number(room, "CUDA graph ", r->graph);
    return (struct text){room, (uint32_t)(p - room)};
}

static char *put_kernel(char *p, const struct gpu_record *r)
{
    p = put_literal(p, "\"queued\": ");
    p = put_id(p, r->kernel.queued_ns);
    p = put_literal(p, ", ");
    p = put_where(p, r);
    p = put_number(p, ", \"registers per thread\": ", r->kernel.registers);
    p = put_literal(p, ", \"shared memory\": ");
    p = put_i64(p, r->kernel.shared_memory);
    if (r->kernel.blocks_per_sm >= 0) { /* false for -1 (unknown device) and for NaN */
        p = put_literal(p, ", \"blocks per SM\": ");
        p = put_decimal(p, (double)r->kernel.blocks_per_sm);
    }
    if (r->kernel.warps_per_sm >= 0) {
        p = put_literal(p, ", \"warps per SM\": ");
        p = put_decimal(p, (double)r->kernel.warps_per_sm);
    }
    p = put_literal(p, ", \"grid\": ");
    p = put_triple(p, r->kernel.grid);
    p = put_literal(p, ", \"block\": ");
    p = put_triple(p, r->kernel.block);
    if (r->kernel.occupancy >= 0)
        p = put_number(p, ", \"est. achieved occupancy %\": ", (uint64_t)r->kernel.occupancy);
    p = put_graph(p, r);
    if (r->kernel.has_priority) {
        p = put_literal(p, ", \"priority\": ");
        p = put_i64(p, r->kernel.priority);
    }
    if (r->kernel.has_channel)
        p = put_channel(p, r->kernel.channel, r->kernel.channel_type);
    return p;
}

/* Writes the args of a copy or fill. */
static char *put_copy(char *p, const struct gpu_record *r, const struct json_place *at)
{
    if (r->kind == GPU_COPY && (r->flags & GPU_PEER) != 0) {
        p = put_ordinal(p, "\"fromDevice\": ", r->copy.peer.from_device);
        p = put_ordinal(p, ", \"inDevice\": ", r->device);
        p = put_ordinal(p, ", \"toDevice\": ", r->copy.peer.to_device);
        p = put_ordinal(p, ", \"fromContext\": ", r->copy.peer.from_context);
        p = put_ordinal(p, ", \"inContext\": ", r->context);
        p = put_ordinal(p, ", \"toContext\": ", r->copy.peer.to_context);
        p = put_ordinal(p, ", \"stream\": ", r->stream);
        p = put_number(p, ", \"correlation\": ", r->correlation);
    } else {
        p = put_where(p, r);
    }
    p = put_literal(p, ", \"bytes\": ");
    p = put_id(p, r->copy.bytes);
    int64_t duration = duration_of(at);
    if (duration > 0) {
        p = put_literal(p, ", \"memory bandwidth (GB/s)\": ");
        p = put_decimal(p, (double)r->copy.bytes / (double)duration);
    }
    p = put_graph(p, r);
    if (r->copy.has_channel)
        p = put_channel(p, r->copy.channel, r->copy.channel_type);
    return p;
}

/* Appends a text of the program. Returns where the event continues; NULL: no
 * room. */
static char *put_text(struct buf *b, char *p, const char *key, const struct text *text)
{
    if (!text->len || !p)
        return p;
    end_at(b, put_literal(p, ", \""));
    buf_puts(b, key);
    buf_puts(b, "\": ");
    json_string(b, text->at, text->len);
    return buf_room(b, GPU_ROOM);
}

/* Appends which span captured the node of a graph. Returns as put_text(). */
static char *put_capture(struct buf *b, char *p, const struct json_link *link)
{
    if (link->captured_by != 0) {
        p = put_literal(p, ", \"captured by\": ");
        p = put_id(p, link->captured_by);
    }
    struct text module = {NULL, 0};
    if (link->captured_module)
        module.at = modules_path(link->captured_module, &module.len);
    if (!module.at)
        module.len = 0;
    p = put_text(b, p, "captured in", &link->captured_name);
    return put_text(b, p, "captured module", &module);
}

/* Appends the transfer of a communication library's kernel. Returns as put_text(). */
static char *put_transfer(struct buf *b, char *p, const struct json_link *link,
                          const struct json_place *at)
{
    if (!link->transfer || !p)
        return p;
    end_at(b, put_literal(p, ", "));
    buf_put(b, link->transfer->args, link->transfer->args_len);
    collective_stats_bandwidth(b, link->transfer, duration_of(at));
    return buf_room(b, GPU_ROOM);
}

static const struct text no_call = TEXT("unknown CUDA call"), no_overhead = TEXT("Unknown");

static struct json_name work_name(const struct gpu_record *r, char room[MADE_NAME])
{
    static const struct text no_name = TEXT("unknown kernel");
    enum category category = CAT_KERNEL;
    struct text name = no_name;
    if (r->kind == GPU_COPY) {
        category = CAT_GPU_MEMCPY;
        name = copy_name(room, r);
    } else if (r->kind == GPU_FILL) {
        category = CAT_GPU_MEMSET;
        name = fill_name(room, r);
    } else if (r->kind == GPU_GRAPH) {
        name = graph_name(room, r);
    }
    name = name_or(r, name);
    return (struct json_name){name.at, name.len, category};
}

static struct json_name call_name(const struct gpu_record *r)
{
    struct text name = name_or(r, no_call);
    return (struct json_name){name.at, name.len,
                              r->flags & GPU_DRIVER ? CAT_CUDA_DRIVER : CAT_CUDA_RUNTIME};
}

static struct json_name overhead_name(const struct gpu_record *r)
{
    struct text name = name_or(r, no_overhead);
    return (struct json_name){name.at, name.len, CAT_OVERHEAD};
}

struct json_name json_gpu_name(const struct gpu_record *r, char room[JSON_NAME_ROOM])
{
    return r->kind == GPU_CALL       ? call_name(r)
           : r->kind == GPU_OVERHEAD ? overhead_name(r)
                                     : work_name(r, room);
}

static char *begin_named(struct buf *b, const struct json_name *name, const struct json_place *at)
{
    return begin_span(b, name->category, (struct text){name->text, (uint32_t)name->len}, at);
}

void json_gpu_work(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                   const struct json_link *link)
{
    size_t start = b->len;
    char room[MADE_NAME];
    struct json_name name = work_name(r, room);
    char *p = begin_named(b, &name, at);
    if (p) {
        p = put_external_id(p, link->external_id);
        if (r->kind == GPU_KERNEL) {
            p = put_kernel(p, r);
        } else if (r->kind == GPU_GRAPH) {
            p = put_where(p, r);
            p = put_graph(p, r);
        } else {
            p = put_copy(p, r, at);
        }
        p = put_capture(b, p, link);
        p = put_text(b, p, "hlo_op", &link->hlo_op);
        p = put_text(b, p, "hlo_module", &link->hlo_module);
        p = put_text(b, p, "source", &link->hlo_source);
        p = put_transfer(b, p, link, at);
    }
    if (p && link->flops != 0) {
        p = put_literal(p, ", \"flops\": ");
        p = put_id(p, link->flops);
        if (duration_of(at) > 0) {
            p = put_literal(p, ", \"TFLOP/s\": ");
            p = put_decimal(p, (double)link->flops / (double)duration_of(at) / 1e3);
        }
    }
    end_event(b, start, p);
}

/* ---- calls, waits, events, overhead, ranges -------------------------------------------------- */

static void end_with_stack(struct buf *b, size_t start, const char *p, uint32_t stack, bool first)
{
    end_at(b, p);
    stacks_args(b, stack, &first);
    stacks_end(b, stack);
    whole_or_nothing(b, start);
}

void json_gpu_call(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                   uint64_t external_id, uint32_t stack)
{
    size_t start = b->len;
    struct json_name name = call_name(r);
    char *p = begin_named(b, &name, at);
    if (p) {
        const char *args = p;
        p = put_external_id(p, external_id);
        if (r->correlation != 0) { /* 0: a hook saw the call, CUPTI did not */
            p = put_number(p, "\"cbid\": ", r->call.cbid);
            p = put_number(p, ", \"correlation\": ", r->correlation);
            p = put_literal(p, ", ");
        }
        if (r->flags & GPU_FAILED)
            p = put_literal(p, "\"failed\": true, ");
        p -= p != args ? 2 : 0; /* the last comma */
        if (stack != 0) {
            end_with_stack(b, start, p, stack, p == args);
            return;
        }
    }
    end_event(b, start, p);
}

void json_gpu_sync(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                   uint64_t external_id, const struct json_wait *wait)
{
    static const struct text kinds[] = {TEXT("Unknown Sync"), TEXT("Event Sync"),
                                        TEXT("Stream Wait Event"), TEXT("Stream Sync"),
                                        TEXT("Context Sync")};
    size_t start = b->len;
    struct text kind = kinds[r->sync.type < sizeof(kinds) / sizeof(*kinds) ? r->sync.type : 0];
    char *p = begin_span(b, CAT_CUDA_SYNC, kind, at);
    if (p) {
        p = put_external_id(p, external_id);
        p = put_literal(p, "\"cuda_sync_kind\": ");
        p = put_string(p, kind.at, kind.len);
        if (r->sync.type == 1 || r->sync.type == 2) {
            p = put_literal(p, ", \"wait_on_stream\": ");
            p = put_i64(p, wait->stream);
            p = put_literal(p, ", \"wait_on_cuda_event_record_corr_id\": ");
            p = put_i64(p, wait->correlation);
            p = put_ordinal(p, ", \"wait_on_cuda_event_id\": ", r->sync.event);
        }
        p = put_ordinal(p, ", \"stream\": ", r->stream);
        p = put_number(p, ", \"correlation\": ", r->correlation);
        p = put_ordinal(p, ", \"device\": ", r->device);
        p = put_ordinal(p, ", \"context\": ", r->context);
        if (r->sync.result != 0)
            p = put_number(p, ", \"result\": ", r->sync.result);
    }
    end_event(b, start, p);
}

void json_gpu_overhead(struct buf *b, const struct gpu_record *r, const struct json_place *at)
{
    size_t start = b->len;
    struct json_name name = overhead_name(r);
    end_event(b, start, begin_named(b, &name, at));
}

void json_gpu_annotation(struct buf *b, const char *name, uint32_t name_len,
                         const struct json_place *at, uint64_t external_id)
{
    size_t start = b->len;
    char *p = begin_span(b, CAT_GPU_USER_ANNOTATION, (struct text){name, name_len}, at);
    if (p && external_id != 0) {
        p = put_literal(p, "\"External id\": ");
        p = put_id(p, external_id);
    }
    end_event(b, start, p);
}

/* ---- driver memory --------------------------------------------------------------------------- */

/* The counter's name: Driver memory CUDA:0, Driver memory CUDA:0 Array, Driver memory Pinned. */
static struct text counter_name(char room[MADE_NAME], const struct gpu_record *r)
{
    uint32_t device = gpu_memory_device(r);
    char *p = put_literal(room, "Driver memory");
    if (device != GPU_NONE)
        p = put_number(p, " CUDA:", device);
    if (device == GPU_NONE || r->memory.kind != GPU_MEMORY_DEVICE) {
        *p++ = ' ';
        p = put_word(p, memory_word(r->memory.kind));
    }
    return (struct text){room, (uint32_t)(p - room)};
}

/* Appends the instant. Its args have the names of Kineto's [memory] where they mean the same. No
 * `stream`: the row is a CPU row. */
static void put_allocation(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                           uint64_t external_id, int64_t allocated)
{
    char *p = begin_event(b, &instant_begin[CAT_DRIVER_MEMORY], "[driver memory]", 15, GPU_ROOM);
    if (!p)
        return;
    const char *kind = memory_word(r->memory.kind);
    p = put_place(p, at);
    p = put_literal(p, ", \"args\": {");
    p = put_external_id(p, external_id);
    p = put_literal(p, "\"Total Allocated\": ");
    p = put_i64(p, allocated);
    p = put_literal(p, ", \"Bytes\": ");
    int64_t bytes = r->memory.bytes <= INT64_MAX ? (int64_t)r->memory.bytes : INT64_MAX;
    p = put_i64(p, r->flags & GPU_RELEASE ? -bytes : bytes);
    p = put_ordinal(p, ", \"Device Id\": ", gpu_memory_device(r));
    p = put_literal(p, ", \"Memory Kind\": ");
    p = put_string(p, kind, strlen(kind));
    p = put_literal(p, ", \"Addr\": ");
    p = put_id(p, r->memory.address);
    p = put_number(p, ", \"correlation\": ", r->correlation);
    if (r->memory.pool != 0) {
        p = put_literal(p, ", \"Pool\": ");
        p = put_id(p, r->memory.pool);
        p = put_literal(p, ", \"Pool Used\": ");
        p = put_id(p, r->memory.pool_used);
        p = put_literal(p, ", \"Pool Size\": ");
        p = put_id(p, r->memory.pool_size);
    }
    end_at(b, put_literal(p, "}},\n"));
}

void json_gpu_memory(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                     uint64_t external_id, uint64_t allocated)
{
    size_t start = b->len;
    char room[MADE_NAME];
    int64_t total = allocated <= INT64_MAX ? (int64_t)allocated : INT64_MAX;
    put_allocation(b, r, at, external_id, total);
    struct text name = counter_name(room, r);
    char *p = begin_event(b, &counter_begin, name.at, name.len, GPU_ROOM);
    if (p) {
        p = put_place(p, at);
        p = put_literal(p, ", \"args\": {\"allocated bytes\": ");
        p = put_i64(p, total);
    }
    end_event(b, start, p);
}

void json_gpu_memory_peak(struct buf *b, uint32_t device, uint8_t kind, uint64_t bytes,
                          int64_t peak_ns)
{
    buf_puts(b, "{\"level\": \"driver\", ");
    if (device != GPU_NONE)
        buf_printf(b, "\"device\": \"CUDA:%u\", ", device);
    buf_printf(b, "\"kind\": \"%s\", \"peak_bytes\": ", memory_word(kind));
    json_uint(b, bytes);
    buf_puts(b, ", \"peak_ts\": ");
    json_us(b, peak_ns);
    buf_puts(b, "}");
}

/* ---- arrows ---------------------------------------------------------------------------------- */

/* Writes an end of an arrow, without its last characters. */
static inline char *put_arrow(char *p, uint64_t id, const struct json_place *at)
{
    p = put_u64(p, id & INT64_MAX);
    p = put_place(p, at);
    return put_literal(p, ", \"cat\": \"ac2g\", \"name\": \"ac2g\"");
}

#define ARROW_ROOM 256u

void json_gpu_arrow_start(struct buf *b, uint64_t id, const struct json_place *at)
{
    char *p = buf_room(b, ARROW_ROOM);
    if (p) {
        p = put_arrow(put_literal(p, "{\"ph\": \"s\", \"id\": "), id, at);
        end_at(b, put_literal(p, "},\n"));
    }
}

void json_gpu_arrow_end(struct buf *b, uint64_t id, const struct json_place *at)
{
    char *p = buf_room(b, ARROW_ROOM);
    if (p) {
        p = put_arrow(put_literal(p, "{\"ph\": \"f\", \"id\": "), id, at);
        end_at(b, put_literal(p, ", \"bp\": \"e\"},\n"));
    }
}
