/* SPDX-License-Identifier: Apache-2.0 */
/* Translates CUPTI's activity records to struct gpu_record, one function per row of kinds.def. */
#include "cupti/translate.h"

#include "cupti/devices.h"
#include "cupti/gpu_names.h"
#include "cupti/records.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_ASYNC          1u /* CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC and _MEMSET_ASYNC */
#define OBJECT_THREAD       2u /* CUpti_ActivityObjectKind … */
#define OBJECT_DEVICE       3u
#define OBJECT_CONTEXT      4u
#define OBJECT_STREAM       5u
#define COMMAND_BUFFER_FULL (6u << 16) /* the only CUpti_ActivityOverheadKind with data */
#define POOL_LOCAL          1u         /* CUpti_ActivityMemoryPoolType */

/* Clears *out and sets what all records have. */
static void begin_record(struct gpu_record *out, enum gpu_kind kind, uint32_t correlation)
{
    memset(out, 0, sizeof(*out));
    out->kind = (uint8_t)kind;
    out->correlation = correlation;
    out->device = GPU_NONE;
    out->context = GPU_NONE;
    out->stream = GPU_NONE;
}

static void set_name(struct gpu_record *out, struct gpu_text name)
{
    out->name = name.text;
    out->name_len = name.len;
}

static enum translate_result check_times(uint64_t start, uint64_t end)
{
    if (start == 0)
        return end == 0 ? TRANSLATE_UNTIMED : TRANSLATE_INVALID;
    if (end == 0)
        return TRANSLATE_UNFINISHED;
    return end < start ? TRANSLATE_INVALID : TRANSLATE_RECORD;
}

/* Converts two times that passed check_times(). */
static void set_times(const struct translate *t, uint64_t start, uint64_t end,
                      struct gpu_record *out)
{
    out->start = t->ticks(start);
    out->end = t->ticks(end);
    if (out->end < out->start)
        out->end = out->start;
}

/* Nanoseconds between two times; 0 if the first is unknown. */
static uint64_t ns_between(const struct translate *t, uint64_t from, uint64_t to)
{
    if (from == 0 || from >= to)
        return 0;
    uint64_t first = t->ticks(from);
    uint64_t last = t->ticks(to);
    double ns = (double)last - (double)first;
    ns *= 1e9 / clock_ticks_per_second();
    return ns > 0 && ns < 1e18 ? (uint64_t)ns : 0; /* longer than any run: invalid */
}

static void set_place(struct gpu_record *out, uint32_t device, uint32_t context, uint32_t stream,
                      uint32_t graph, uint64_t node)
{
    out->device = device;
    out->context = context;
    out->stream = stream;
    out->graph = graph;
    out->node = node;
}

static void set_bytes(struct gpu_record *out, uint64_t bytes, uint32_t channel,
                      uint32_t channel_type)
{
    out->copy.bytes = bytes;
    out->copy.has_channel = channel != GPU_NONE;
    out->copy.channel = channel;
    out->copy.channel_type = channel_type;
}

static enum translate_result take_kernel(const struct translate *t, const void *activity,
                                         struct gpu_record *out)
{
    const struct cupti_kernel *k = activity;
    enum translate_result times = check_times(k->start, k->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_KERNEL, k->correlation);
    set_name(out, gpu_name(k->name));
    set_times(t, k->start, k->end, out);
    set_place(out, k->device, k->context, k->stream, k->graph, k->node);
    memcpy(out->kernel.grid, k->grid, sizeof(k->grid));
    memcpy(out->kernel.block, k->block, sizeof(k->block));
    out->kernel.registers = k->registers;
    out->kernel.shared_memory = (int32_t)((uint32_t)k->static_shared + (uint32_t)k->dynamic_shared);
    out->kernel.has_channel = k->channel != GPU_NONE;
    out->kernel.channel = k->channel;
    out->kernel.channel_type = k->channel_type;
    if (t->version >= CUPTI_13_1) {
        out->kernel.has_priority = true;
        out->kernel.priority = k->priority;
    }
    out->kernel.queued_ns = ns_between(t, k->queued, k->start);
    gpu_context_learn(k->context, k->device);
    gpu_occupancy(k, out);
    return TRANSLATE_RECORD;
}

static enum translate_result take_copy(const struct translate *t, const void *activity,
                                       struct gpu_record *out)
{
    const struct cupti_copy *c = activity;
    enum translate_result times = check_times(c->start, c->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_COPY, c->correlation);
    set_times(t, c->start, c->end, out);
    out->flags = c->flags & FLAG_ASYNC ? GPU_ASYNC : 0;
    set_place(out, c->device, c->context, c->stream, c->graph, c->node);
    set_bytes(out, c->bytes, c->channel, c->channel_type);
    out->copy.kind = c->copy_kind;
    out->copy.from_kind = c->from_kind;
    out->copy.to_kind = c->to_kind;
    return TRANSLATE_RECORD;
}

static enum translate_result take_peer_copy(const struct translate *t, const void *activity,
                                            struct gpu_record *out)
{
    const struct cupti_peer_copy *c = activity;
    enum translate_result times = check_times(c->start, c->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_COPY, c->correlation);
    set_times(t, c->start, c->end, out);
    out->flags = GPU_PEER | (c->flags & FLAG_ASYNC ? GPU_ASYNC : 0);
    set_place(out, c->device, c->context, c->stream, c->graph, c->node);
    set_bytes(out, c->bytes, c->channel, c->channel_type);
    out->copy.kind = c->copy_kind;
    out->copy.from_kind = c->from_kind;
    out->copy.to_kind = c->to_kind;
    out->copy.peer.from_device = c->from_device;
    out->copy.peer.to_device = c->to_device;
    out->copy.peer.from_context = c->from_context;
    out->copy.peer.to_context = c->to_context;
    return TRANSLATE_RECORD;
}

static enum translate_result take_fill(const struct translate *t, const void *activity,
                                       struct gpu_record *out)
{
    const struct cupti_fill *f = activity;
    enum translate_result times = check_times(f->start, f->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_FILL, f->correlation);
    set_times(t, f->start, f->end, out);
    out->flags = f->flags & FLAG_ASYNC ? GPU_ASYNC : 0;
    set_place(out, f->device, f->context, f->stream, f->graph, f->node);
    set_bytes(out, f->bytes, f->channel, f->channel_type);
    out->copy.to_kind = f->memory_kind <= UINT8_MAX ? (uint8_t)f->memory_kind : 0;
    return TRANSLATE_RECORD;
}

static enum translate_result take_call(const struct translate *t, const void *activity,
                                       struct gpu_record *out)
{
    const struct cupti_call *c = activity;
    bool driver = c->kind == CUPTI_KIND_DRIVER;
    const struct gpu_call *call = gpu_call(t->callback_name, driver, c->cbid);
    /* A call newer than this CUPTI: the kernels that it causes are counted as without a call. */
    if (!call->name.text)
        return TRANSLATE_SKIPPED;
    if (!call->shown)
        return TRANSLATE_SKIPPED;
    enum translate_result times = check_times(c->start, c->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_CALL, c->correlation);
    set_name(out, call->name);
    set_times(t, c->start, c->end, out);
    out->flags = (driver ? GPU_DRIVER : 0) | (c->result != 0 ? GPU_FAILED : 0);
    out->call.tid = c->tid;
    out->call.cbid = c->cbid;
    out->call.effect = call->effect;
    return TRANSLATE_RECORD;
}

/* CUPTI writes its 32-bit "does not apply" into this 64-bit field. */
static uint64_t event_sync_of(uint64_t id)
{
    return id == UINT32_MAX || id == UINT64_MAX ? 0 : id;
}

static enum translate_result take_sync(const struct translate *t, const void *activity,
                                       struct gpu_record *out)
{
    const struct cupti_sync *s = activity;
    enum translate_result times = check_times(s->start, s->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_SYNC, s->correlation);
    set_times(t, s->start, s->end, out);
    out->context = s->context;
    out->device = gpu_device_of(s->context);
    out->stream = s->stream; /* GPU_NONE is CUPTI's own value for none */
    out->sync.type = s->type <= UINT8_MAX ? (uint8_t)s->type : 0;
    out->sync.event = s->event;
    if (t->version >= CUPTI_12_8) {
        out->sync.event_sync = event_sync_of(s->event_sync);
        out->sync.result = s->result;
    }
    return TRANSLATE_RECORD;
}

static enum translate_result take_event(const struct translate *t, const void *activity,
                                        struct gpu_record *out)
{
    const struct cupti_event *e = activity;
    begin_record(out, GPU_EVENT, e->correlation);
    out->context = e->context;
    out->device = gpu_device_of(e->context);
    out->stream = e->stream;
    out->event.event = e->event;
    if (t->version >= CUPTI_12_8) {
        out->device = e->device;
        out->event.event_sync = event_sync_of(e->event_sync);
        if (e->device_time != 0)
            set_times(t, e->device_time, e->device_time, out);
    }
    if (t->version >= CUPTI_13_5) {
        out->node = e->node;
        out->graph = e->graph;
    }
    return TRANSLATE_RECORD;
}

static enum translate_result take_overhead(const struct translate *t, const void *activity,
                                           struct gpu_record *out)
{
    const struct cupti_overhead *o = activity;
    /* The client must free the data of this kind. Other kinds leave the field unset. */
    if (t->version >= CUPTI_12_4 && o->overhead_kind == COMMAND_BUFFER_FULL)
        free(o->data);
    enum translate_result times = check_times(o->start, o->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_OVERHEAD, t->version >= CUPTI_12_3 ? o->correlation : 0);
    set_name(out, gpu_overhead_name(o->overhead_kind));
    set_times(t, o->start, o->end, out);
    if (o->object_kind == OBJECT_THREAD) {
        /* before 12.4 it is not the id type that was asked for (release notes of 12.4) */
        out->overhead.tid = t->version >= CUPTI_12_4 ? o->object.thread.tid : 0;
    } else if (o->object_kind >= OBJECT_DEVICE && o->object_kind <= OBJECT_STREAM) {
        out->device = o->object.device.device;
        out->context = o->object_kind >= OBJECT_CONTEXT ? o->object.device.context : GPU_NONE;
        out->stream = o->object_kind == OBJECT_STREAM ? o->object.device.stream : GPU_NONE;
    }
    return TRANSLATE_RECORD;
}

static enum translate_result take_memory(const struct translate *t, const void *activity,
                                         struct gpu_record *out)
{
    const struct cupti_memory *m = activity;
    if (m->operation != 1 && m->operation != 2) /* CUpti_ActivityMemoryOperationType */
        return TRANSLATE_INVALID;
    if (m->time == 0)
        return TRANSLATE_UNTIMED;
    begin_record(out, GPU_MEMORY, m->correlation);
    set_times(t, m->time, m->time, out);
    out->flags = (m->operation == 2 ? GPU_RELEASE : 0) | (m->is_async != 0 ? GPU_ASYNC : 0);
    out->device = m->device;
    /* "No context" is UINT32_MAX, and 0 in CUDA 13.5; ids begin at 1. The stream is likewise 0 or
     * UINT32_MAX unless is_async. */
    out->context = m->context != 0 ? m->context : GPU_NONE;
    out->stream = m->is_async != 0 ? m->stream : GPU_NONE;
    out->memory.address = m->address;
    out->memory.bytes = m->bytes;
    out->memory.kind = m->memory_kind <= UINT8_MAX ? (uint8_t)m->memory_kind : 0;
    if (m->pool.type != 0)
        out->memory.pool = m->pool.address;
    if (m->pool.type == POOL_LOCAL) {
        out->memory.pool_used = m->pool.used;
        out->memory.pool_size = m->pool.size;
    }
    return TRANSLATE_RECORD;
}

/* Ignored: no memory that the program uses, and the next allocation tells the pool's size. */
static enum translate_result take_pool(const struct translate *t, const void *activity,
                                       struct gpu_record *out)
{
    (void)t, (void)activity, (void)out;
    return TRANSLATE_TAKEN;
}

static enum translate_result take_graph(const struct translate *t, const void *activity,
                                        struct gpu_record *out)
{
    const struct cupti_graph *g = activity;
    enum translate_result times = check_times(g->start, g->end);
    if (times != TRANSLATE_RECORD)
        return times;
    begin_record(out, GPU_GRAPH, g->correlation);
    set_times(t, g->start, g->end, out);
    out->device = g->device < INT_MAX ? g->device : GPU_NONE;
    out->context = g->context < INT_MAX ? g->context : GPU_NONE;
    out->stream = g->stream;
    out->graph = g->graph;
    return TRANSLATE_RECORD;
}

static enum translate_result take_device(const struct translate *t, const void *activity,
                                         struct gpu_record *out)
{
    (void)t, (void)out;
    gpu_device_learn(activity);
    return TRANSLATE_TAKEN;
}

static enum translate_result take_context(const struct translate *t, const void *activity,
                                          struct gpu_record *out)
{
    (void)t, (void)out;
    const struct cupti_context *c = activity;
    gpu_context_learn(c->context, c->device);
    return TRANSLATE_TAKEN;
}

enum translate_result translate(const struct translate *t, const void *activity,
                                struct gpu_record *out)
{
    uint32_t kind;
    memcpy(&kind, activity, sizeof(kind));
    switch (kind) {
#define KIND(id, number, when, translator)                                                         \
    case number:                                                                                   \
        return take_##translator(t, activity, out);
#include "cupti/kinds.def"
#undef KIND
    default:
        return TRANSLATE_INVALID;
    }
}
