/* SPDX-License-Identifier: Apache-2.0 */
/* Which action a step has: the arithmetic of torch.profiler.schedule and Composer's
 * cyclic_schedule. Pure: no state, allocation or output; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/step_ranges.h"
#include "writer/writer.h"

/* What the schedule counts. The order is that of CPROF_SCHEDULE_SCOPE's values in config.def. */
enum schedule_scope {
    SCHEDULE_RUN = 0,   /* steps of the run, as in torch */
    SCHEDULE_EPOCH = 1, /* batches of each epoch, as in Composer: each epoch replays the schedule */
    SCHEDULE_NONE = 2,  /* nothing: all is recorded, and saved at the end */
};

/* Counts of steps; see schedule_is_valid(). */
struct schedule {
    int64_t skip_first;   /* steps skipped once, at the start (of the run, or of each epoch) */
    int64_t wait;         /* idle steps at the start of a cycle */
    int64_t warmup;       /* warmup steps after them */
    int64_t active;       /* recorded steps after them; the last one saves */
    int64_t repeat;       /* number of cycles; 0: without end */
    bool skip_first_wait; /* the first cycle has no wait */
    enum schedule_scope scope;
    const struct step_ranges *named; /* steps to record instead of cycles, or NULL */
};

/* True when no count is negative and active is at least 1. */
bool schedule_is_valid(const struct schedule *schedule);

/* The action of a step (from 0; with `named`, the run's number). SCHEDULE_NONE: always
 * ACTION_ACTIVE. SCHEDULE_EPOCH: `step` is the batch in the epoch; prefer
 * schedule_action_in_epoch(). A negative step or an invalid schedule gives ACTION_SKIP. Exact for
 * all int64 values. */
enum action schedule_action(const struct schedule *schedule, int64_t step);

/* Composer's rule: as schedule_action(), but the epoch's last batch saves if it is active. After a
 * resumption, pass batch_in_epoch minus the batches before it. SCHEDULE_NONE: always
 * ACTION_ACTIVE. */
enum action schedule_action_in_epoch(const struct schedule *schedule, int64_t batch_in_epoch,
                                     bool is_last);

/* Describes the schedule in one line, cut at size; returns its length. Example: "skip 10 steps,
 * then 2 times: wait 1, warm up 1, record 3; steps 12 to 14 are recorded first". */
size_t schedule_describe(const struct schedule *schedule, char *out, size_t size);
