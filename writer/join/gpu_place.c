/* SPDX-License-Identifier: Apache-2.0 */
/* Row and process of a device record in the trace. */
#include "writer/join/gpu_place.h"

#include <stdio.h>

#define NAME_ROOM 96u

/* The process name over a device's rows; Perfetto does not show process_labels. */
static const char *process_of(const struct window_shared *shared, enum lane_kind kind,
                              uint32_t device, char room[NAME_ROOM])
{
    if (kind == LANE_OVERHEAD)
        return window_process_name();
    if (device == GPU_NONE)
        return "GPU of no known number";
    const struct gpu_source *source = shared->options->gpu;
    const char *name = source ? source->device_name(device) : NULL;
    snprintf(room, NAME_ROOM, "GPU %u%s%s", device, name ? " " : "", name ? name : "");
    return room;
}

bool gpu_place(struct window *w, const struct window_shared *shared, enum lane_kind kind,
               uint32_t owner, uint32_t id, const struct gpu_record *r, struct json_place *at)
{
    bool nest = kind == LANE_ANNOTATION || kind == LANE_OVERHEAD;
    *at = window_place(w, shared, 1, r->start, r->end);
    if (!w->gpu.lanes)
        w->gpu.lanes = lanes_make();
    struct lanes *l = w->gpu.lanes;
    char room[NAME_ROOM];
    const char *process =
        !l || lanes_have_process(l, kind, owner) ? NULL : process_of(shared, kind, owner, room);
    bool fits = !l || lanes_place(l, kind, owner, id, at->start_ns, at->end_ns, nest, process,
                                  &w->body, &at->pid, &at->tid);
    w->lost.n[LOSS_GPU_ROWS] += !fits;
    return fits;
}

struct json_place gpu_place_state(struct window *w, const struct window_shared *shared,
                                  const struct gpu_state *s)
{
    struct json_place at = window_place(w, shared, LANES_STATE_TID, s->ticks, s->ticks);
    char room[NAME_ROOM];
    at.pid = s->device;
    if (!w->gpu.lanes)
        w->gpu.lanes = lanes_make();
    if (w->gpu.lanes && !lanes_have_process(w->gpu.lanes, LANE_WORK, s->device))
        lanes_name_process(w->gpu.lanes, s->device, process_of(shared, LANE_WORK, s->device, room),
                           &w->body);
    return at;
}
