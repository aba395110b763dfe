/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of cprof.h for steps, epochs, regions and schedules. Application threads; errno is kept. */
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

/* cprof_awake(); tells the user when a forked child, which records nothing, asks to record. */
static bool may_record(void)
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
    if (may_record())
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
    if (may_record())
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
    return cprof_awake() && gate_open(GATE_WINDOW);
}

/* ---- when to record ---- */

static void set_region(bool begins)
{
    int saved = errno;
    if (begins ? may_record() : cprof_awake())
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

/* A schedule of cprof_set_schedule(). Never freed: another thread may be calling the previous
 * one. */
struct program_schedule {
    struct program_schedule *before;
    cprof_schedule choose;
    void *arg;
};

static struct program_schedule *_Atomic schedules; /* the newest one; any thread adds */

static int ask_program(const struct train_time *t, int64_t step, void *schedule)
{
    const struct program_schedule *s = schedule;
    struct cprof_time time = program_time(t, step);
    return s->choose(&time, s->arg);
}

/* Reuses the entry of an equal schedule, since programs may set the same one often. NULL: no
 * memory. */
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
    if (may_record()) {
        struct program_schedule *s = choose ? schedule_of(choose, arg) : NULL;
        if (choose && !s)
            log_warn("cprof_set_schedule(): no memory; the previous schedule stays");
        if (s || !choose)
            steps_choose_by(s ? ask_program : NULL, s);
    }
    errno = saved;
}
