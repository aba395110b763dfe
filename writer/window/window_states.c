/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the GPUs during a window. */
#include "writer/window/window_states.h"

#include "writer/window/window.h"

#define DIGITS 6

static void count_slowed(struct window_state *own, const struct gpu_state *s)
{
    if (s->is_idle)
        return;
    own->busy++;
    for (unsigned i = 0; i < THROTTLES; i++)
        if (s->throttled >> i & 1) {
            own->slowed[i].readings++;
            own->slowed[i].sm_clocks += s->value[GPU_SM_CLOCK];
        }
}

void window_state_take(struct window *w, const struct gpu_state *s, const struct json_place *at)
{
    struct window_state *own = &w->states[s->device];
    w->events += json_state(&w->body, s, at);
    if (gpu_state_knows(s, GPU_THROTTLED)) {
        w->events += json_throttles(&w->body, own->throttled, s->throttled, at);
        own->throttled = s->throttled;
        count_slowed(own, s);
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

static void put_slowed(const struct window_state *own, struct buf *b)
{
    unsigned reasons = 0;
    for (unsigned i = 0; i < THROTTLES; i++) {
        uint64_t n = own->slowed[i].readings;
        if (!n)
            continue;
        buf_printf(b, "%s\"%s\": {\"readings\": %llu, \"sm_clock_mhz\": ",
                   reasons++ ? ", " : ", \"throttled\": {", throttle_names[i],
                   (unsigned long long)n);
        json_rounded(b, own->slowed[i].sm_clocks / (double)n, DIGITS);
        buf_puts(b, "}");
    }
    buf_puts(b, reasons ? "}" : "");
}

static void put_state(uint32_t device, const struct window_state *own, struct buf *b)
{
    buf_printf(b, "\"CUDA:%u\": {\"readings\": %llu, \"busy\": %llu", device,
               (unsigned long long)own->readings, (unsigned long long)own->busy);
    if (own->sm_clock_most)
        buf_printf(b, ", \"sm_clock_most_mhz\": %u", own->sm_clock_most);
    if (own->power_limit > 0) {
        buf_puts(b, ", \"power_limit_w\": ");
        json_rounded(b, own->power_limit, DIGITS);
    }
    put_slowed(own, b);
    buf_puts(b, "}");
}

void window_states_account(const struct window *w, struct buf *b)
{
    bool any = false;
    for (uint32_t device = 0; device < GPU_STATES; device++) {
        if (!w->states[device].readings)
            continue;
        buf_puts(b, any ? ", " : "\"telemetry\": {");
        put_state(device, &w->states[device], b);
        any = true;
    }
    buf_puts(b, any ? "}, " : "");
}
