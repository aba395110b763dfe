/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: who may mark one, what the schedule says about it, and what is switched at its edge. The
 * edge belongs to the thread that marks it; that thread stamps the time, sets the gate and posts
 * the edge to the cprof thread, and does nothing else. */
#ifndef PRELOAD_STEPS_STEPS_H
#define PRELOAD_STEPS_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"
#include "preload/settings/settings.h"

/* What can mark a step. */
enum step_source {
    /* cprof_step(): counts from now on and silences every other source for the rest of the run; a
     * first one behind the optimizer's mark is that mark */
    STEP_CALL,
    STEP_OPTIMIZER,  /* the end of torch's Optimizer.step range */
    STEP_DATALOADER, /* a batch is fetched from a DataLoader */
    STEP_FORWARD,    /* the end of an outermost module call */
    STEP_NVTX,       /* the end of an NVTX range, or an NVTX mark, of the name asked for */
    STEP_ITT,        /* an ITT task or mark whose name matches */
    STEP_SYMBOL,     /* a call of a function that CPROF_STEP names */
};

/* Step 0 begins. keep_unmarked: what comes before the first mark is kept, for a program that never
 * marks one. Once, at wake-up, by the waking thread. */
void steps_start(const struct config *config, bool keep_unmarked);

/* True when marks from `source` count now. Any thread. */
bool steps_listen_to(enum step_source source);

/* Marks the end of the current step at `ticks` (clock_ticks(); 0 = now). Ignored when `source` does
 * not count. Any thread; < 100 us whatever the window held. */
void steps_mark(enum step_source source, uint64_t ticks);

/* The same with what the step took in; what is not above 0 is not counted. */
void steps_mark_batch(enum step_source source, uint64_t ticks, int64_t samples, int64_t tokens);

/* Marks of any source, counting or not, that the calling thread has made. */
uint32_t steps_marked_here(void);

/* The steps since the last call were an epoch. told: by the program, which silences all other
 * sources for the rest of the run; a first call that tells what was just seen does not count twice.
 * Any thread, as steps_mark(). */
void steps_end_epoch(bool told);

/* They will have been one with the next step that this thread marks and that counts, or by
 * steps_end_pending_epoch() before. */
void steps_end_epoch_next(void);

/* Ends it now if this thread has said so; its next step is of another epoch. */
void steps_end_pending_epoch(void);

/* A region of the program begins or ends in which the schedule applies, from its step 0 on. What
 * came before the first one is thrown away if it can be; outside nothing is recorded. Inside a
 * region only depth is counted; an end without a beginning does nothing. Any thread. */
void steps_region(bool begins);

/* Decides about each step at its beginning, given the time and the step's number, from 0 in the
 * region: an enum action. */
typedef int steps_chooser(const struct train_time *time, int64_t step, void *arg);

/* Decides about all steps, beginning with the current one, until the next call; NULL: the settings'
 * schedule does. It is called without a lock by the thread that marks the step; marks that come
 * meanwhile are counted after it, its own are not counted. Any thread. */
void steps_choose_by(steps_chooser *chooser, void *arg);

/* Tells who listens (writer_listen()) where training stands now. Any thread. */
void steps_tell(void);

/* Marks, epochs and regions that the calling thread makes from now on do not count. */
void steps_ignore_thread(void);

enum steps_answer {
    STEPS_TAKEN,
    STEPS_RECORDING, /* a window is open, or about to open: its trace will do */
    STEPS_REFUSED,   /* nothing is recorded any more */
    STEPS_TOO_MANY,  /* DEMANDS_MOST wait for their steps */
};

/* Demands a window besides the schedule: of so many steps, the first of them `from`, or the next
 * one where that has begun; or, with 0 and 0, from now until steps_demand_end(). Neither is above
 * DEMANDS_STEP. The schedule, regions and a chooser decide again when it is over, with the next
 * mark. *first: the step in which it begins, or the step being run. cprof thread. */
enum steps_answer steps_demand(int64_t steps, int64_t from, int64_t *first);

/* Ends a window that was demanded with 0. Later calls do nothing. cprof thread. */
void steps_demand_end(void);

/* The step being run, and its action; 0 and ACTION_SKIP while cprof sleeps or is over. Any
 * thread. */
int64_t steps_current(void);
enum action steps_action(void); /* as steps_current() */

/* How many steps the run had, if the schedule recorded none of them; else 0. Once it is over. */
int64_t steps_unreached(void);

/* True when what the GPU does in the current step is or may be wanted: a warmup or active step, or
 * step 0 while it is kept. Any thread. */
bool steps_want_gpu(void);

/* Ends the current step for good: the last edge, posted by the exiting thread. */
void steps_finish(void);

/* What else the room offers. */
#include "preload/steps/trigger.h"

#endif
