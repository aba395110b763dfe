/* SPDX-License-Identifier: Apache-2.0 */
/* See flows.h. cprof thread. */
#include "writer/flows.h"

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
