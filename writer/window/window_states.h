/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the GPUs during a window. cprof thread. */
#pragma once

#include "writer/record/record.h"
#include "writer/sums/sums.h"

struct window;

/* Of one GPU in a window. */
struct window_state {
    uint64_t readings;
    uint64_t busy; /* readings at which something ran */
    struct {
        uint64_t readings;
        double sm_clocks;   /* sum, MHz */
    } slowed[THROTTLES];    /* of the busy ones */
    uint32_t throttled;     /* bits 1 << enum throttle at the last reading */
    uint32_t sm_clock_most; /* MHz; 0: unknown */
    double power_limit;     /* W; 0: unknown */
    struct energy_since since;
};

/* Writes the counters of a reading. */
void window_state_take(struct window *w, const struct gpu_state *s, const struct json_place *at);

/* A step of the window began at `start` (ticks). */
void window_states_step(struct window *w, int64_t step, uint64_t start);

/* What each GPU has spent in the window's whole steps. */
void window_states_energy(struct window *w, struct energy_use spent[GPU_STATES]);

/* Appends `"telemetry": {…}, ` to the account, if there were readings. */
void window_states_account(const struct window *w, struct buf *b);
