/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the GPUs during a window. */
#include "writer/window/window_states.h"

#include "writer/json/json_state.h"
#include "writer/window/window.h"

#define DIGITS 6

void window_state_take(struct window *w, const struct gpu_state *s, const struct json_place *at)
{
    struct window_state *own = &w->states[s->device];
    w->events += json_state(&w->body, s, at);
    if (gpu_state_knows(s, GPU_THROTTLED)) {
        w->events += json_throttles(&w->body, own->throttled, s->throttled, at);
        own->throttled = s->throttled;
    }
    own->sm_clock_most = s->sm_clock_most;
    own->power_limit = s->power_limit;
    own->readings++;
}

void window_states_step(struct window *w, int64_t step, uint64_t start)
{
    for (uint32_t device = 0; device < GPU_STATES; device++)
        energy_begin(&w->states[device].since, device, start, step);
}

void window_states_energy(struct window *w, struct energy_use spent[GPU_STATES])
{
    for (uint32_t device = 0; device < GPU_STATES; device++)
        spent[device] = energy_spent(&w->states[device].since, device, w->steps_end, w->last_step);
}

void window_states_account(const struct window *w, struct buf *b)
{
    bool any = false;
    for (uint32_t device = 0; device < GPU_STATES; device++) {
        const struct window_state *own = &w->states[device];
        if (!own->readings)
            continue;
        buf_printf(b, "%s\"CUDA:%u\": {\"readings\": %llu", any ? ", " : "\"telemetry\": {", device,
                   (unsigned long long)own->readings);
        if (own->sm_clock_most)
            buf_printf(b, ", \"sm_clock_most_mhz\": %u", own->sm_clock_most);
        if (own->power_limit > 0) {
            buf_puts(b, ", \"power_limit_w\": ");
            json_rounded(b, own->power_limit, DIGITS);
        }
        buf_puts(b, "}");
        any = true;
    }
    if (any)
        buf_puts(b, "}, ");
}
