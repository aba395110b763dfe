/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of steps that were demanded besides the schedule (CPROF_TRIGGER): each by its first step
 * and how many. Those that overlap or follow directly are one window. Pure: no allocation, no
 * output; whoever owns the set calls from one thread at a time. */
#ifndef PRELOAD_SETTINGS_DEMANDS_H
#define PRELOAD_SETTINGS_DEMANDS_H

#include <stdbool.h>
#include <stdint.h>

#define DEMANDS_MOST 16u             /* that wait or are recorded at a time */
#define DEMANDS_STEP (INT64_MAX / 2) /* no step, and no count of steps, is above it */

struct demands {
    struct {
        int64_t from, to; /* steps; `to` is the first one behind it */
    } at[DEMANDS_MOST];
    unsigned n;
};

/* Adds `steps` (from 1) steps, the first of them `from` (from 0), neither above DEMANDS_STEP.
 * False: there are too many that wait. */
bool demands_add(struct demands *d, int64_t from, int64_t steps);

/* Whether the step is one of a demanded window. */
bool demands_cover(const struct demands *d, int64_t step);

/* Forgets what lies before the step. */
void demands_forget(struct demands *d, int64_t step);

#endif
