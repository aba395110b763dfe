/* SPDX-License-Identifier: Apache-2.0 */
/* Counts steps, and asks the schedule what to record in each. Runs on application threads, under
 * the edge's lock. */
#include "preload/steps/steps.h"

#include <stdatomic.h>
#include <string.h>

#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "preload/steps/edge_lock.h"
#include "preload/steps/requests.h"
#include "preload/steps/step_edge.h"
#include "preload/steps/steps_say.h"
#include "preload/steps/trigger.h"
#include "writer/writer.h"

#define SAME_STEP 8 /* a call within 1/8 of a step after the optimizer's mark is the same step */

/* The edge's lock guards the following. Atomic ones are also read without it. */
static struct schedule schedule;
static const struct config *_Atomic config; /* set once; NULL while cprof sleeps */
static _Atomic int64_t step;
static _Atomic int action;
static _Atomic bool keep;
static int last_mark = -1; /* enum step_source of the last mark that counted */
static bool running;
static bool wanted;       /* the schedule chose to record at least one step */
static int64_t unreached; /* see steps_unreached() */
static uint64_t started_ns, epoch_ns, step_ns;
static uint64_t length_ns;     /* of the last complete step */
static struct train_time done; /* counts up to the last edge; time_at() fills in the times */
static int64_t first_step,
    /* where the schedule's counting starts: step in the run, batch in the epoch */
    first_batch;
static unsigned regions;  /* open regions */
static bool outside;      /* between regions, or before the first one of a trigger */
static bool epoch_called; /* cprof_epoch() was called: only calls end epochs */
static bool epoch_seen;   /* a DataLoader ended the last epoch, not a call */
static steps_chooser *chooser;
static void *chooser_arg;
/* Windows on demand: those counted in steps, and whether one counted in seconds is open. */
static struct demands demands;
static bool timed;
static bool demanded; /* the current step is recorded on demand */
/* the schedule opened the current window; steps on demand extend it */
static bool schedules_own;

static _Atomic bool called; /* cprof_step() was used */

static __thread uint32_t marked_here;
static __thread bool epoch_pending; /* see steps_end_epoch_next() */

static struct train_time time_at(uint64_t now_ns)
{
    struct train_time t = done;
    t.batch = atomic_load(&step);
    t.total_wct_ns = (int64_t)(now_ns - started_ns);
    t.epoch_wct_ns = (int64_t)(now_ns - epoch_ns);
    t.batch_wct_ns = (int64_t)(now_ns - step_ns);
    return t;
}

/* Tells listeners where training stands; changes nothing. time: before an epoch's end, if one is
 * over. */
static void note(const struct train_time *time, bool epoch_over)
{
    enum action now = (enum action)atomic_load(&action);
    struct step_edge edge = {.kind = EDGE_NOTE,
                             .step = atomic_load(&step),
                             .ended = now,
                             .begun = now,
                             .kept = keep,
                             .keep = keep,
                             .time = *time,
                             .epoch_over = epoch_over};
    writer_edge_begin();
    edge.ticks = clock_ticks();
    writer_edge(&edge);
}

/* time: before the epoch ended. */
static void note_epoch(const struct train_time *time)
{
    if (writer_is_heard())
        note(time, true);
}

/* ---- which action ---- */

static enum action scheduled(void)
{
    if (schedule.scope == SCHEDULE_EPOCH)
        return schedule_action_in_epoch(&schedule, done.batch_in_epoch - first_batch, false);
    return schedule_action(&schedule, atomic_load(&step) - (schedule.named ? 0 : first_step));
}

/* The action of a step on demand. */
static enum action demanded_action(int64_t now)
{
    int before = atomic_load(&action);
    schedules_own = schedules_own && before == ACTION_ACTIVE;
    bool goes_on = schedules_own && !outside && !chooser && scheduled() == ACTION_ACTIVE;
    return timed || goes_on || demands_cover(&demands, now + 1) ? ACTION_ACTIVE
                                                                : ACTION_ACTIVE_AND_SAVE;
}

/* Chooses the action of the current step. False: as requests_ask(). */
static bool choose_action(const struct request *r, enum action *answer)
{
    *answer = ACTION_SKIP;
    int64_t now = atomic_load(&step);
    demands_forget(&demands, now);
    demanded = timed || (r->kind == EDGE_STEP && demands_cover(&demands, now));
    if (demanded)
        *answer = demanded_action(now);
    if (demanded || outside || r->demand)
        return true;
    schedules_own = true;
    if (chooser) {
        struct train_time time = time_at(clock_monotonic_ns());
        return requests_ask(chooser, chooser_arg, &time, now - first_step, answer);
    }
    *answer = scheduled();
    return true;
}

/* ---- what a request changes before the action is chosen; false: there is no edge ---- */

static void add_count(int64_t *count, int64_t more)
{
    if (more > 0 && __builtin_add_overflow(*count, more, count))
        *count = INT64_MAX;
}

/* The program's first cprof_step() may follow the optimizer's mark of the same step. */
static bool is_marked_already(const struct request *r)
{
    bool already = r->source == STEP_CALL && last_mark == STEP_OPTIMIZER &&
                   clock_monotonic_ns() - step_ns < length_ns / SAME_STEP;
    last_mark = (int)r->source;
    return already;
}

static bool end_step(const struct request *r)
{
    if (!steps_listen_to(r->source))
        return false;
    bool already = is_marked_already(r);
    if (!already) {
        atomic_store(&step, atomic_load(&step) + 1);
        add_count(&done.batch_in_epoch, 1);
    }
    add_count(&done.sample, r->samples);
    add_count(&done.sample_in_epoch, r->samples);
    add_count(&done.token, r->tokens);
    add_count(&done.token_in_epoch, r->tokens);
    return !already;
}

static bool end_epoch(const struct request *r)
{
    bool told_again = r->called && epoch_seen && done.batch_in_epoch == 0;
    if (!r->called && epoch_called)
        return false;
    epoch_called = epoch_called || r->called;
    epoch_seen = !r->called;
    if (told_again)
        return false; /* DataLoader and call ended the same epoch */
    bool decides = schedule.scope == SCHEDULE_EPOCH || chooser;
    struct train_time before = time_at(clock_monotonic_ns());
    if (!decides)
        note_epoch(&before);
    add_count(&done.epoch, 1);
    done.batch_in_epoch = done.sample_in_epoch = done.token_in_epoch = 0;
    first_batch = 0;
    epoch_ns = clock_monotonic_ns();
    return decides;
}

static bool begin_region(void)
{
    if (regions++ > 0)
        return false;
    outside = false;
    first_step = atomic_load(&step);
    first_batch = done.batch_in_epoch;
    return true;
}

static bool end_region(void)
{
    if (regions == 0 || --regions > 0)
        return false;
    outside = true;
    return true;
}

/* A window of seconds ends in a step that other requests or the schedule record as well: the window
 * continues as theirs. */
static bool is_taken_over(void)
{
    int64_t now = atomic_load(&step);
    schedules_own = !outside && !chooser && scheduled() >= ACTION_ACTIVE;
    demanded = demands_cover(&demands, now);
    if (demanded || schedules_own)
        atomic_store(&action, (int)(demanded ? demanded_action(now) : scheduled()));
    return demanded || schedules_own;
}

/* A window of seconds begins or ends, in the middle of a step. */
static bool demand_edge(bool begins)
{
    bool on = demanded && timed;
    /* a mark may have begun the schedule's window since demand() looked */
    timed = begins && (on || atomic_load(&action) < (int)ACTION_ACTIVE);
    return on != timed && (timed || !is_taken_over());
}

static bool prepare_edge(const struct request *r)
{
    if (r->demand)
        return demand_edge(r->kind == EDGE_START);
    switch (r->kind) {
    case EDGE_STEP:
        return end_step(r);
    case EDGE_EPOCH:
        return end_epoch(r);
    case EDGE_START:
        return begin_region();
    case EDGE_STOP:
        return end_region();
    case EDGE_NOTE: {
        struct train_time time = time_at(clock_monotonic_ns());
        note(&time, false);
        return false;
    }
    case EDGE_SCHEDULE:
        chooser = r->chooser;
        chooser_arg = r->arg;
        return true;
    default:
        return false;
    }
}

/* ---- requests ---- */

/* Whether to keep step 0, or a region's first step, as the trace of a program that never marks a
 * step. EDGE_STOP: whether to save it as that trace. */
static bool keeps(enum edge_kind kind, enum action begun)
{
    if (kind == EDGE_STEP)
        return false;
    if (kind == EDGE_START)
        return begun < ACTION_ACTIVE;
    return keep && (begun < ACTION_ACTIVE || kind == EDGE_STOP);
}

/* An epoch's end is no edge if the program's schedule still wants the same action. torch's
 * schedules do not count epochs, so their windows continue. */
static bool goes_on(const struct request *r, enum action begun)
{
    return r->kind == EDGE_EPOCH && schedule.scope != SCHEDULE_EPOCH &&
           begun == (enum action)atomic_load(&action);
}

/* Handles a request. False: as requests_ask(). */
static bool handle(const struct request *r)
{
    if (!running)
        return true;
    struct step_edge edge = {.kind = r->kind, .kept = keep};
    if (r->demand && r->kind == EDGE_START) /* keep the markers before it */
        edge.kind = EDGE_SCHEDULE;
    uint64_t now_ns = clock_monotonic_ns();
    struct train_time before = time_at(now_ns);
    if (!prepare_edge(r))
        return true;
    if (demanded && r->kind != EDGE_STEP && !r->demand) {
        schedules_own = false; /* the schedule's own window ends here */
        return true;           /* a window on demand ignores the program's schedule */
    }
    bool ends_step = r->kind == EDGE_STEP;
    /* an epoch's last trace has that epoch's number */
    edge.time = ends_step ? time_at(now_ns) : before;
    if (ends_step) {
        length_ns = now_ns - step_ns;
        step_ns = now_ns;
    }
    if (!choose_action(r, &edge.begun))
        return false;
    if (!running) /* steps_finish() ran meanwhile */
        return true;
    if (goes_on(r, edge.begun)) {
        note_epoch(&before);
        return true;
    }
    edge.step = atomic_load(&step);
    edge.ended = (enum action)atomic_load(&action);
    edge.keep = keeps(r->kind, edge.begun);
    wanted = wanted || edge.begun >= ACTION_ACTIVE;
    if ((edge.begun != ACTION_SKIP || edge.keep) && !writer_run()) {
        atomic_store(&action, (int)ACTION_SKIP);
        keep = false;
        return true;
    }
    atomic_store(&action, (int)edge.begun);
    edge_cross(&edge, r, config, outside);
    keep = edge.keep && r->kind != EDGE_STOP;
    return true;
}

static void serve(const struct request *given)
{
    if (!requests_admit(given))
        return;
    if (given->kind == EDGE_STEP && given->source == STEP_CALL)
        atomic_store(&called, true);
    requests_serve(given, handle);
    life_edge_settle();
}

/* ---- calls ---- */

void steps_start(const struct config *given, bool keep_unmarked)
{
    edge_lock();
    config = given;
    schedule = (struct schedule){.skip_first = given->skip_first,
                                 .wait = given->wait,
                                 .warmup = given->warmup,
                                 .active = given->active,
                                 .repeat = given->repeat,
                                 .skip_first_wait = given->skip_first_wait,
                                 .scope = (enum schedule_scope)given->schedule_scope,
                                 .named = given->steps.n > 0 ? &given->steps : NULL};
    char text[256];
    schedule_describe(&schedule, text, sizeof text);
    log_debug("schedule: %s", text);
    started_ns = epoch_ns = step_ns = clock_monotonic_ns();
    /* With these triggers, nothing is recorded before the first region. */
    outside = given->trigger == CONFIG_TRIGGER_NVTX || given->trigger == CONFIG_TRIGGER_CUDA;
    enum action first = outside ? ACTION_SKIP : schedule_action(&schedule, 0);
    atomic_store(&action, (int)first);
    wanted = first >= ACTION_ACTIVE;
    struct step_edge edge = {.ended = ACTION_SKIP,
                             .begun = first,
                             .kind = EDGE_FIRST,
                             .keep = keep_unmarked && !outside && first < ACTION_ACTIVE};
    if ((first != ACTION_SKIP || edge.keep) && !writer_run())
        edge.keep = false;
    edge_cross(&edge, &(struct request){.kind = EDGE_FIRST}, given, outside);
    keep = edge.keep;
    running = true;
    edge_unlock();
    life_edge_settle();
}

bool steps_listen_to(enum step_source source)
{
    if (source == STEP_CALL)
        return true;
    const struct config *c = config;
    if (!c || atomic_load_explicit(&called, memory_order_relaxed))
        return false;
    return (source == STEP_OPTIMIZER &&
            (c->step == CONFIG_STEP_AUTO || c->step == CONFIG_STEP_OPTIMIZER)) ||
           (source == STEP_DATALOADER && c->step == CONFIG_STEP_DATALOADER) ||
           (source == STEP_FORWARD && c->step == CONFIG_STEP_FORWARD) ||
           (source == STEP_NVTX && c->step == CONFIG_STEP_NVTX) ||
           (source == STEP_ITT && c->step == CONFIG_STEP_ITT) ||
           (source == STEP_SYMBOL && c->step == CONFIG_STEP_SYMBOL);
}

void steps_mark(enum step_source source, uint64_t ticks)
{
    steps_mark_batch(source, ticks, 0, 0);
}

void steps_mark_batch(enum step_source source, uint64_t ticks, int64_t samples, int64_t tokens)
{
    marked_here++;
    serve(&(struct request){
        .kind = EDGE_STEP, .source = source, .ticks = ticks, .samples = samples, .tokens = tokens});
    if (epoch_pending && steps_listen_to(source))
        steps_end_epoch(false);
    if (atomic_load(&cprof_life) == LIFE_AWAKE && steps_current() > 0)
        trigger_start(config); /* the process is a rank from its first mark on */
}

int64_t steps_unreached(void)
{
    return unreached;
}

uint32_t steps_marked_here(void)
{
    return marked_here;
}

void steps_end_epoch(bool told)
{
    epoch_pending = false;
    serve(&(struct request){.kind = EDGE_EPOCH, .called = told});
}

void steps_end_epoch_next(void)
{
    epoch_pending = true;
}

void steps_end_pending_epoch(void)
{
    if (epoch_pending)
        steps_end_epoch(false);
}

void steps_region(bool begins)
{
    serve(&(struct request){.kind = begins ? EDGE_START : EDGE_STOP});
}

void steps_choose_by(steps_chooser *given, void *arg)
{
    serve(&(struct request){.kind = EDGE_SCHEDULE, .chooser = given, .arg = arg});
}

void steps_tell(void)
{
    serve(&(struct request){.kind = EDGE_NOTE});
}

/* steps_demand() without opening the window of seconds. Under the lock. */
static enum steps_answer demand(int64_t steps, int64_t from, int64_t *first)
{
    int64_t now = atomic_load(&step), next = now + 1;
    *first = now;
    if (!running || writer_is_off())
        return STEPS_REFUSED;
    int is = atomic_load(&action);
    /* the current window ends with this step */
    bool ends = steps > 0 && is == ACTION_ACTIVE_AND_SAVE;
    bool records = !ends && (is >= (int)ACTION_ACTIVE || demands_cover(&demands, next));
    if (records && from <= next) {
        if (steps > 0) /* extend the current window; if there is no room, it stays as it is */
            demands_add(&demands, timed ? now : next, steps + timed);
        return STEPS_RECORDING;
    }
    if (steps == 0)
        return STEPS_TAKEN;
    *first = from > next ? from : next;
    return demands_add(&demands, *first, steps) ? STEPS_TAKEN : STEPS_TOO_MANY;
}

enum steps_answer steps_demand(int64_t steps, int64_t from, int64_t *first)
{
    if (atomic_load(&cprof_life) != LIFE_AWAKE || requests_in_cloned_child())
        return STEPS_REFUSED;
    edge_lock();
    enum steps_answer answer = demand(steps, from, first);
    edge_unlock();
    if (answer == STEPS_TAKEN && steps == 0)
        serve(&(struct request){.kind = EDGE_START, .demand = true});
    return answer;
}

void steps_demand_end(void)
{
    serve(&(struct request){.kind = EDGE_STOP, .demand = true});
}

int64_t steps_current(void)
{
    return atomic_load_explicit(&step, memory_order_relaxed);
}

enum action steps_action(void)
{
    return (enum action)atomic_load_explicit(&action, memory_order_relaxed);
}

bool steps_want_gpu(void)
{
    return steps_action() != ACTION_SKIP || atomic_load_explicit(&keep, memory_order_relaxed) ||
           edge_keeps_kernels(config);
}

static bool counts_epochs(void)
{
    return schedule.scope == SCHEDULE_EPOCH || strstr(config->filename, "epoch}");
}

void steps_finish(void)
{
    if (!edge_lock_for_exit())
        return;
    if (running && !wanted && !chooser && config->trigger == CONFIG_TRIGGER_OFF)
        unreached = atomic_load(&step);
    bool optimizerless =
        running && atomic_load(&step) == 0 && config->step == CONFIG_STEP_OPTIMIZER;
    if (running && last_mark == STEP_OPTIMIZER && config->step == CONFIG_STEP_AUTO)
        writer_tell_optimizers();
    bool epochless = running && atomic_load(&step) > 0 && done.epoch == 0 && counts_epochs();
    if (running) {
        struct step_edge edge = {.step = atomic_load(&step),
                                 .ended = (enum action)atomic_load(&action),
                                 .begun = ACTION_SKIP,
                                 .kind = EDGE_LAST,
                                 .time = time_at(clock_monotonic_ns()),
                                 .kept = keep,
                                 .keep = keep,
                                 .unless_ranks = regions == 0};
        edge_cross(&edge, &(struct request){.kind = EDGE_LAST}, config, outside);
        atomic_store(&action, ACTION_SKIP);
        running = false;
    }
    edge_unlock();
    if (optimizerless)
        steps_say_no_optimizer(config_step_name(CONFIG_STEP_OPTIMIZER));
    if (unreached)
        steps_say_unreached(&schedule, unreached);
    else if (epochless)
        steps_say_no_epoch(&schedule, atomic_load(&step));
}
