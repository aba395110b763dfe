/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of this room. The first four are printed once in a process, with or without the edge's
 * lock; the others at exit. */
#pragma once

#include <stdint.h>

#include "preload/settings/settings.h"

/* The program's schedule returned no action. */
void steps_say_no_action(int answer);

/* The program's schedule was left by longjmp, an exception or the end of its thread. */
void steps_say_no_answer(void);

/* A signal handler marked a step while its thread crossed an edge. */
void steps_say_in_handler(void);

/* More than `most` edges were queued while the program's schedule ran. */
void steps_say_too_many(unsigned most);

/* The program ended before the schedule recorded anything, so there is no trace. */
void steps_say_unreached(const struct schedule *schedule, int64_t steps);

/* No optimizer matched CPROF_STEP=optimizer:GLOB. Silent when no optimizer stepped at all. */
void steps_say_no_optimizer(const char *glob);

/* The schedule or the file name counts epochs, but none ended: all steps fall into the first. */
void steps_say_no_epoch(const struct schedule *schedule, int64_t steps);
