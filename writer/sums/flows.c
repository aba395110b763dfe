/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows from forward to backward operators. cprof thread. */
#include "writer/sums/flows.h"

#include <string.h>

static unsigned slot(uint64_t thread, int64_t sequence)
{
    return (unsigned)((uint64_t)sequence + thread * 40503u) & (FLOWS_SLOTS - 1);
}

void flows_forward(struct flows *f, uint64_t window, uint64_t torch_thread, int64_t sequence,
                   const struct json_place *at)
{
    struct flow_source *source = &f->sources[slot(torch_thread, sequence)];
    bool same =
        source->window == window && source->sequence == sequence && source->thread == torch_thread;
    if (same && source->at.start_ns >= at->start_ns)
        return;
    *source = (struct flow_source){window, sequence, torch_thread, *at};
}

const struct json_place *flows_find(const struct flows *f, uint64_t window, uint64_t forward_thread,
                                    int64_t sequence)
{
    const struct flow_source *source = &f->sources[slot(forward_thread, sequence)];
    bool same = source->window == window && source->sequence == sequence &&
                source->thread == forward_thread;
    return same ? &source->at : NULL;
}

void flows_draw(const struct flows *f, uint64_t window, const struct flow_end *end,
                struct buf *body)
{
    const struct json_place *from = flows_find(f, window, end->forward_thread, end->sequence);
    if (from && from->start_ns <= end->at.start_ns)
        json_flow(body, "fwdbwd", end->id, from, &end->at);
}

void flows_settle(const struct flows *f, uint64_t window, struct buf *waiting, uint64_t ticks,
                  struct buf *body)
{
    size_t kept = 0;
    struct flow_end end;
    for (size_t at = 0; at < waiting->len; at += sizeof end) {
        memcpy(&end, waiting->data + at, sizeof end);
        if (end.start < ticks) {
            flows_draw(f, window, &end, body);
        } else {
            memmove(waiting->data + kept, waiting->data + at, sizeof end);
            kept += sizeof end;
        }
    }
    waiting->len = kept;
    waiting->failed = false;
}
