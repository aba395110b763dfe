/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the state of the GPUs into the windows of its time. */
#include "writer/state_rows.h"

#include "writer/gpu_side.h"

static void take_state(const struct gpu_state *s, void *arg)
{
    struct gpu_side *g = arg;
    struct window *w = g->in.at(s->ticks);
    energy_add(s);
    if (!w && finished_missed(s->ticks)) {
        g->count_loss(LOSS_GPU_STATE, 1);
    } else if (w && !w->unwanted && window_room(w, g->in.shared)) {
        struct json_place at = gpu_place_state(w, g->in.shared, s);
        window_state_take(w, s, &at);
    }
}

void states_collect(struct gpu_side *g)
{
    if (!g->states)
        return;
    uint64_t lost = g->states->collect(take_state, g);
    if (lost)
        g->count_loss(LOSS_GPU_STATE, lost);
}
