/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the rows of kernels, copies, fills, graphs and waits. */
#include "writer/join/work_rows.h"

#include "writer/json/json.h"
#include "writer/join/events.h"
#include "writer/join/gpu_place.h"
#include "writer/join/nodes.h"
#include "writer/join/ranges.h"
#include "writer/join/attribution.h"
#include "writer/sums/sums.h"

#define CLOCK_ERROR_NS 100

/* Draws the arrow from a call to its work. Leaves out one that leads back in time: Perfetto gives
 * it no end. */
static void draw_arrow(struct window *w, struct call *c, const struct json_place *to)
{
    if (c->state != CALL_WRITTEN)
        return;
    if (to->start_ns < c->at.start_ns) {
        w->gpu.before_call++;
        return;
    }
    if (!c->arrow)
        json_gpu_arrow_start(&w->body, c->correlation, &c->at);
    c->arrow = true;
    json_gpu_arrow_end(&w->body, c->correlation, to);
}

static void count_work(struct window *w, const struct gpu_record *r)
{
    uint64_t *n = r->kind == GPU_COPY   ? &w->gpu.copies
                  : r->kind == GPU_FILL ? &w->gpu.fills
                                        : &w->gpu.kernels;
    ++*n;
}

/* Adds a kernel's time to the FLOP statistics, and places the FLOPs of its span, or of its captured
 * work, on its device. */
static void count_kernel(const struct join_windows *in, struct window *w, const struct call *c,
                         const struct gpu_record *r, const struct json_place *at,
                         const struct node_maker *maker)
{
    struct flop_stats *stats = window_flops(w, in->shared);
    const struct share *share = attribution_place(c->counted);
    int64_t launched = c->at.start_ns ? c->at.start_ns : at->start_ns;
    bool counted = c->counted != 0 || (maker && maker->work);
    flop_stats_kernel(stats, r->device, at->end_ns - at->start_ns, counted);
    if (maker && maker->all)
        flop_stats_replayed(stats, launched, r->device, maker->all);
    if (share)
        flop_stats_placed(stats, launched, r->device, share->where, share->flops, share->bytes);
}

void work_row(const struct join_windows *in, struct window *w, struct call *c,
              const struct gpu_record *r, uint64_t flops)
{
    struct json_link link = {.external_id = c->external, .flops = flops};
    const struct node_maker *maker = r->node ? nodes_find(r->node) : NULL;
    if (maker) {
        link.flops = r->kind == GPU_KERNEL ? nodes_flops(maker) : 0;
        link.captured_by = maker->span;
        link.captured_name = (struct text){maker->name, maker->name_len};
        link.captured_module = maker->module;
    }
    struct hlo hlo = ranges_hlo(c->range);
    if (maker && maker->name) {
        struct hlo captured = ranges_hlo_of(maker->name, maker->name_len, maker->source_len);
        if (captured.op.len)
            hlo.op = captured.op;
        hlo.source = captured.source; /* not the line of the launch */
    }
    link.hlo_op = hlo.op;
    link.hlo_module = hlo.module;
    link.hlo_source = hlo.source;
    struct transfer transfer;
    uint64_t sent = maker ? maker->transfer : c->collective;
    if (r->kind == GPU_KERNEL && collective_stats_find(sent, &transfer))
        link.transfer = &transfer;
    uint32_t device =
        r->flags & GPU_PEER && r->device == GPU_NONE ? r->copy.peer.from_device : r->device;
    struct json_place at;
    if (!gpu_place(w, in->shared, LANE_WORK, device, r->stream, r, &at))
        return;
    json_gpu_work(&w->body, r, &at, &link);
    summary_gpu(window_summary(w, in->shared), r, &at, c->external, link.transfer);
    if (r->kind == GPU_KERNEL)
        count_kernel(in, w, c, r, &at, maker);
    draw_arrow(w, c, &at);
    ranges_extend(c->range, w->serial, device, r->stream, r->start, r->end);
    count_work(w, r);
    w->events++;
}

static void write_sync(const struct join_windows *in, struct window *w, struct call *c,
                       const struct gpu_record *r)
{
    struct json_wait wait;
    struct json_place at;
    events_find(r, c->correlation, &wait);
    if (!gpu_place(w, in->shared, LANE_SYNC, r->device, r->stream, r, &at))
        return;
    /* CUPTI's clock and the host's are known to each other within CLOCK_ERROR_NS, and a wait begins
     * with its call. */
    int64_t early = c->at.start_ns - at.start_ns;
    if (c->state == CALL_WRITTEN && early > 0 && early <= CLOCK_ERROR_NS) {
        at.start_ns = c->at.start_ns;
        at.end_ns = at.end_ns > at.start_ns ? at.end_ns : at.start_ns;
    }
    json_gpu_sync(&w->body, r, &at, c->external, &wait);
    draw_arrow(w, c, &at);
    w->gpu.syncs++;
    w->events++;
}

static void write_memory(const struct join_windows *in, struct window *w, struct call *c,
                         const struct gpu_record *r)
{
    uint64_t allocated = gpu_memory_note(&w->gpu.memory, r);
    struct json_place at = window_place(w, in->shared, c->at.tid, r->start, r->end);
    at.pid = c->at.pid;
    if (c->at.tid)
        json_gpu_memory(&w->body, r, &at, c->external, allocated);
    w->events++;
}

void work_rows_put(const struct join_windows *in, struct window *w, struct call *c,
                   const struct gpu_record *r)
{
    if (!window_room(w, in->shared))
        return;
    switch ((enum gpu_kind)r->kind) {
    case GPU_KERNEL:
        if (!c->counted || !attribution_wait(c, r))
            work_row(in, w, c, r, 0);
        break;
    case GPU_COPY:
    case GPU_FILL:
    case GPU_GRAPH:
        work_row(in, w, c, r, 0);
        break;
    case GPU_SYNC:
        write_sync(in, w, c, r);
        c->done |= c->effect == EFFECT_WAIT;
        break;
    case GPU_MEMORY:
        write_memory(in, w, c, r);
        break;
    case GPU_EVENT:
    case GPU_CALL:
    case GPU_OVERHEAD:
        break;
    }
}
