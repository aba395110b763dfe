/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: who marks them, what the schedule says about them, and what is switched at their edges.
 * The marking thread stamps the time, opens or closes the gate and posts the edge to the cprof
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"
#include "preload/settings/settings.h"

/* What can mark a step. */
enum step_source {
    /* cprof_step(): the first call turns all other sources off for the rest of the run. If it
     * directly follows the optimizer's mark, both are one step. */
    STEP_CALL,
    STEP_OPTIMIZER,  /* torch's Optimizer.step range ends */
    STEP_DATALOADER, /* a DataLoader fetches a batch */
    STEP_FORWARD,    /* an outermost module call ends */
    STEP_NVTX,       /* an NVTX range or mark of the configured name ends */
    STEP_ITT,        /* an ITT task or mark of the configured name */
    STEP_SYMBOL,     /* a call of the function that CPROF_STEP names */
};

/* Begins step 0; once, on the waking thread. keep_unmarked: record it, because the program may
 * never mark a step. */
void steps_start(const struct config *config, bool keep_unmarked);

/* True when marks from `source` count. Any thread. */
bool steps_listen_to(enum step_source source);

/* Ends the current step at `ticks` (clock_ticks(); 0: now). Does nothing when `source` does not
 * count. Any thread; takes less than 100 us. */
void steps_mark(enum step_source source, uint64_t ticks);

/* The same, and adds samples and tokens to the counts; values below 1 are ignored. */
void steps_mark_batch(enum step_source source, uint64_t ticks, int64_t samples, int64_t tokens);

/* Number of marks of the calling thread, including those that do not count. */
uint32_t steps_marked_here(void);

/* Ends the epoch. told: by the program; from then on, DataLoaders end no epochs. A first call
 * directly after a DataLoader's end is that same end. Any thread. */
void steps_end_epoch(bool told);

/* Ends the epoch at this thread's next counted step, or at steps_end_pending_epoch(). */
void steps_end_epoch_next(void);

/* Ends the epoch now if this thread called steps_end_epoch_next(). */
void steps_end_pending_epoch(void);

/* Begins or ends a region; nothing is recorded outside regions. The schedule counts from 0 in each.
 * The first one discards what is kept but not saved. Regions nest; an end without a beginning does
 * nothing. Any thread. */
void steps_region(bool begins);

/* Chooses the enum action of a step when it begins. `step` counts from 0 in the region. */
typedef int steps_chooser(const struct train_time *time, int64_t step, void *arg);

/* Lets `chooser` decide from the current step on; NULL: the settings' schedule. The marking thread
 * calls it without a lock. Marks of other threads wait for its answer; its own marks do not count.
 * Any thread. */
void steps_choose_by(steps_chooser *chooser, void *arg);

/* Sends the current position of the training to listeners (writer_listen()). Any thread. */
void steps_tell(void);

/* From now on, ignores the calling thread's marks, epochs and regions. */
void steps_ignore_thread(void);

enum steps_answer {
    STEPS_TAKEN,
    STEPS_RECORDING, /* a window is open or about to open; its trace serves */
    STEPS_REFUSED,   /* recording is off */
    STEPS_TOO_MANY,  /* DEMANDS_MOST windows wait already */
};

/* Requests a window besides the schedule. It takes `steps` steps, from step `from` or the next one
 * if that has begun. With 0 and 0 it lasts from now until steps_demand_end(). Both are at most
 * DEMANDS_STEP. Afterwards the schedule decides again, from the next mark on. *first: the window's
 * first step, or the current one. cprof thread. */
enum steps_answer steps_demand(int64_t steps, int64_t from, int64_t *first);

/* Ends a window requested with 0 and 0. Later calls do nothing. cprof thread. */
void steps_demand_end(void);

/* The current step; 0 while cprof sleeps or is over. Any thread. */
int64_t steps_current(void);
enum action steps_action(void); /* ACTION_SKIP while cprof sleeps or is over */

/* Number of steps of a run that recorded none of them, else 0. After steps_finish(). */
int64_t steps_unreached(void);

/* True when GPU activity of the current step may be recorded: warmup, active, or a kept step 0. Any
 * thread. */
bool steps_want_gpu(void);

/* Ends the last step and stops counting. Exiting thread. */
void steps_finish(void);

/* The room's other headers. */
#include "preload/steps/trigger.h"
