/* SPDX-License-Identifier: Apache-2.0 */
/* What steps.c has to tell the user. The first four once in a process, without the edge's lock or
 * with it; the others at exit. */
#ifndef PRELOAD_STEPS_STEPS_SAY_H
#define PRELOAD_STEPS_STEPS_SAY_H

#include <stdint.h>

#include "preload/settings/settings.h"

/* The program's schedule returned this. */
void steps_say_no_action(int answer);

/* The program's schedule will not return any more. */
void steps_say_no_answer(void);

/* What a signal's handler marks fell into the middle of an edge. */
void steps_say_in_handler(void);

/* More than so many edges came while the program's schedule decided about one. */
void steps_say_too_many(unsigned most);

/* The program ended, after so many steps, before the schedule recorded anything, so that there is
 * no trace: its user would look for one, and for the reason. */
void steps_say_unreached(const struct schedule *schedule, int64_t steps);

/* No optimizer whose class matches CPROF_STEP=optimizer:GLOB has stepped. Says nothing where no
 * optimizer has. */
void steps_say_no_optimizer(const char *glob);

/* No end of an epoch was seen in so many steps, though the schedule or a name counts in epochs: who
 * waits for the traces of the others would look for them, or take all steps for those of the
 * first. */
void steps_say_no_epoch(const struct schedule *schedule, int64_t steps);

#endif
