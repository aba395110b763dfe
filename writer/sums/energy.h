/* SPDX-License-Identifier: Apache-2.0 */
/* What each GPU has spent between any two moments of the last seconds, interpolated between its
 * readings. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"

/* The first step of a window that can be counted. Zeroed: none yet. */
struct energy_since {
    uint64_t ticks; /* its start; 0: none yet */
    int64_t step;
    double joules; /* at its start, if known */
    bool known;
};

/* What a GPU has spent in whole steps. */
struct energy_use {
    double joules;
    uint64_t steps;  /* 0: unknown */
    bool is_counted; /* as in struct gpu_state */
};

/* Takes a reading; those of a device in the order of time. */
void energy_add(const struct gpu_state *s);

/* A step of a window began at `start`: notes it if the window has none yet that can be counted. */
void energy_begin(struct energy_since *since, uint32_t device, uint64_t start, int64_t step);

/* What the device has spent from since->step to the end (ticks) of `last_step`. Call it often
 * enough that the readings around the start are still there. */
struct energy_use energy_spent(struct energy_since *since, uint32_t device, uint64_t end,
                               int64_t last_step);
