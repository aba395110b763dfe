/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which action at which step: torch.profiler.schedule's arithmetic and Composer's cyclic_schedule.
 * Pure: no state, no allocation, no output; asked by the thread that marks the step, callable from
 * any.
 */
#ifndef PRELOAD_SETTINGS_SCHEDULE_H
#define PRELOAD_SETTINGS_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/step_ranges.h"
#include "writer/writer.h"

/* What the schedule counts. The order is that of CPROF_SCHEDULE_SCOPE's values in config.def. */
enum schedule_scope {
    SCHEDULE_RUN = 0,   /* steps of the run, as torch */
    SCHEDULE_EPOCH = 1, /* batches of each epoch, as Composer: every epoch replays the schedule */
    SCHEDULE_NONE = 2,  /* no schedule: everything is recorded, nothing is saved before the end */
};

/* Counts of steps; see schedule_is_valid. Owned by whoever fills it, only read here. */
struct schedule {
    int64_t skip_first;   /* steps ignored once at the start (of the run, or of each epoch) */
    int64_t wait;         /* idle steps that begin a cycle */
    int64_t warmup;       /* warmup steps that follow */
    int64_t active;       /* recorded steps that follow; the last one saves */
    int64_t repeat;       /* cycles; 0 is for ever */
    bool skip_first_wait; /* the first cycle has no wait */
    enum schedule_scope scope;
    const struct step_ranges *named; /* the steps to record, instead of cycles; NULL: none are */
};

/* True when no count is negative and active is at least 1. */
bool schedule_is_valid(const struct schedule *schedule);

/*
 * The action for step (from 0; with named steps that of the run). With SCHEDULE_NONE always
 * ACTION_ACTIVE. With SCHEDULE_EPOCH step is the batch within the epoch and the epoch's end is not
 * known: prefer schedule_action_in_epoch. A negative step or an invalid schedule gives ACTION_SKIP.
 * Exact for every int64 value.
 */
enum action schedule_action(const struct schedule *schedule, int64_t step);

/*
 * Composer's rule: as schedule_action on the batch within the epoch (from 0), but the epoch's last
 * batch, when is_last says that it is one, turns ACTION_ACTIVE into ACTION_ACTIVE_AND_SAVE.
 * Composer does not count the batches before a resumption: pass batch_in_epoch minus their number.
 * With SCHEDULE_NONE always ACTION_ACTIVE.
 */
enum action schedule_action_in_epoch(const struct schedule *schedule, int64_t batch_in_epoch,
                                     bool is_last);

/*
 * One line for people into out (terminated, cut at size), for example "skip 10 steps, then 2 times:
 * wait 1, warm up 1, record 3; steps 12 to 14 are recorded first". Returns the length written.
 */
size_t schedule_describe(const struct schedule *schedule, char *out, size_t size);

#endif
