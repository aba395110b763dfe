/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that triggers requested (CPROF_TRIGGER), as ranges of steps. Pure: no allocation, no
 * output. The caller serializes calls. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define DEMANDS_MOST 16u             /* windows at a time */
#define DEMANDS_STEP (INT64_MAX / 2) /* the largest step, and number of steps */

struct demands {
    struct {
        int64_t from, to; /* `to` is the first step after the window */
    } at[DEMANDS_MOST];
    unsigned n;
};

/* Adds `steps` (at least 1) steps from step `from` on; neither is above DEMANDS_STEP. Returns false
 * when the set is full. */
bool demands_add(struct demands *d, int64_t from, int64_t steps);

/* Whether a window holds the step. */
bool demands_cover(const struct demands *d, int64_t step);

/* Removes windows that end before the step. */
void demands_forget(struct demands *d, int64_t step);
