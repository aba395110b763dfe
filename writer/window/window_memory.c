/* SPDX-License-Identifier: Apache-2.0 */
/* Memory peaks and failed allocations of a window. */
#include "writer/window/window_memory.h"

#include "writer/sums/sums.h"

#include <string.h>

#include "writer/json/json.h"

struct settling {
    struct window *w;
    const struct window_shared *shared;
};

static void put_failed(const struct memory_event *e, const struct memory_holders *held, void *arg)
{
    struct settling *s = arg;
    struct json_place at = window_place(s->w, s->shared, e->tid, e->start, e->start);
    json_out_of_memory(&s->w->body, e, held, &at);
    s->w->events++;
}

void window_memory_settle(struct window *w, const struct window_shared *shared, uint64_t ticks)
{
    struct settling s = {w, shared};
    memory_owners_settle(w->memory, ticks, put_failed, &s);
}

/* Writes a sample of the memory that the caching allocator holds, when that changed. */
static void put_reserved(struct window *w, const struct window_shared *shared,
                         const struct record_owner *owner, const struct record *r)
{
    struct record_memory m;
    memcpy(&m, record_data(r), sizeof m);
    if (m.device_type <= 0 || m.device_index < 0 || m.device_index >= (int)RESERVED ||
        w->reserved[m.device_index] == m.total_reserved)
        return;
    w->reserved[m.device_index] = m.total_reserved;
    struct json_place at = window_place(w, shared, owner->tid, r->start, r->start);
    json_memory_reserved(&w->body, &m, &at);
    w->events++;
}

void window_memory_take(struct window *w, const struct window_shared *shared,
                        const struct record_owner *owner, const struct record *r)
{
    if (memory_owners_full(w->memory)) /* the newest record may be older than what this settles */
        window_memory_settle(w, shared, UINT64_MAX);
    if (!memory_owners_take(&w->memory, r, owner->tid))
        w->lost.n[LOSS_NO_MEMORY]++;
    else if (r->kind == REC_MEMORY)
        put_reserved(w, shared, owner, r);
}

void window_memory_account(const struct window *w, struct buf *b)
{
    const struct memory_device *device;
    const char *before = "\"memory\": [";
    for (unsigned i = 0; (device = memory_owners_device(w->memory, i)) != NULL; i++) {
        struct memory_holders at_peak, at_end;
        memory_owners_at_peak(w->memory, device, &at_peak);
        memory_owners_at_end(w->memory, device, &at_end);
        buf_puts(b, before);
        json_memory_device(b, device, clock_wall_ns(device->peak_at) - w->base_ns, &at_peak,
                           &at_end);
        before = ", ";
    }
    for (uint32_t i = 0; i < w->gpu.memory.n_totals; i++) {
        const struct gpu_memory_total *total = &w->gpu.memory.totals[i];
        if (total->peak == 0)
            continue; /* it only frees memory of an earlier window */
        buf_puts(b, before);
        json_gpu_memory_peak(b, total->device, total->kind, total->peak,
                             clock_wall_ns(total->peak_at) - w->base_ns);
        before = ", ";
    }
    if (before[0] == ',')
        buf_puts(b, "], ");
}

unsigned window_memory_uses(const struct window *w, struct window_memory_use *out, unsigned most)
{
    const struct memory_device *device;
    unsigned n = 0;
    for (; n < most && (device = memory_owners_device(w->memory, n)) != NULL; n++) {
        json_memory_device_name(out[n].device, device->type, device->index);
        out[n].peak = (double)device->peak;
        out[n].last = (double)device->last;
    }
    return n;
}
