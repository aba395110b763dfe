/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of cprof.h that say where the training stands and when to record. Application threads;
 * errno stays. */
#define CPROF_IMPLEMENTATION
#include "preload/cprof.h"

#include <errno.h>
#include <stdlib.h>

#include "preload/core/core.h"
#include "preload/steps/steps.h"
#include "writer/writer.h"

const char *cprof_version(void)
{
    return CPROF_VERSION;
}

/* cprof_awake() for the calls by which a program wants something recorded. */
static bool records(void)
{
    if (cprof_awake())
        return true;
    forked_marks();
    return false;
}

/* ---- steps and epochs ---- */

void cprof_step_samples(int64_t samples, int64_t tokens)
{
    int saved = errno;
    if (records())
        steps_mark_batch(STEP_CALL, 0, samples, tokens);
    errno = saved;
}

void cprof_step(void)
{
    cprof_step_samples(0, 0);
}

void cprof_step_marker(void)
{
    cprof_step_samples(0, 0);
}

void cprof_epoch(void)
{
    int saved = errno;
    if (records())
        steps_end_epoch(true);
    errno = saved;
}

int cprof_action(void)
{
    return cprof_awake() ? (int)steps_action() : CPROF_SKIP;
}

int64_t cprof_step_number(void)
{
    return cprof_awake() ? steps_current() : 0;
}

int cprof_is_recording(void)
{
    return cprof_awake() && gate_open(GATE_MARKERS);
}

/* ---- when to record ---- */

static void set_region(bool begins)
{
    int saved = errno;
    if (begins ? records() : cprof_awake())
        steps_region(begins);
    errno = saved;
}

void cprof_start(void)
{
    set_region(true);
}

void cprof_stop(void)
{
    set_region(false);
}

/* The program's schedule, called in its own terms. `arg` is what cprof_set_schedule() was given,
 * kept for good: another thread may be asking the one before. */
struct program_schedule {
    struct program_schedule *before;
    cprof_schedule choose;
    void *arg;
};

static struct program_schedule *_Atomic schedules; /* the last one given; any thread adds */

static int ask_program(const struct train_time *t, int64_t step, void *schedule)
{
    const struct program_schedule *s = schedule;
    struct cprof_time time = program_time(t, step);
    return s->choose(&time, s->arg);
}

/* The one for these two: a program may give the same again and again. NULL: no memory. */
static struct program_schedule *schedule_of(cprof_schedule choose, void *arg)
{
    struct program_schedule *s = atomic_load(&schedules);
    while (s && (s->choose != choose || s->arg != arg))
        s = s->before;
    if (s || !(s = malloc(sizeof *s)))
        return s;
    *s = (struct program_schedule){atomic_load(&schedules), choose, arg};
    while (!atomic_compare_exchange_weak(&schedules, &s->before, s))
        ;
    return s;
}

void cprof_set_schedule(cprof_schedule choose, void *arg)
{
    int saved = errno;
    if (records()) {
        struct program_schedule *s = choose ? schedule_of(choose, arg) : NULL;
        if (choose && !s)
            log_warn("cprof_set_schedule(): no memory; the schedule is the one before");
        if (s || !choose)
            steps_choose_by(s ? ask_program : NULL, s);
    }
    errno = saved;
}
