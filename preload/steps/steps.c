/* SPDX-License-Identifier: Apache-2.0 */
/* Counts steps, asks the schedule about each, and switches recording at step edges. Runs on
 * application threads, under one lock. */
#include "preload/steps/steps.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cupti/gpu_trace.h"
#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "preload/steps/steps_say.h"
#include "preload/steps/trigger.h"
#include "writer/writer.h"

#define EXIT_WAIT_MS 50  /* much longer than an edge takes */
#define WAITING      64u /* edges that can queue while the program's schedule runs */
#define SAME_STEP    8 /* a call within 1/8 of a step after the optimizer's mark is the same step */

/* One call into this file: a mark, an epoch's end, a region's edge, a new schedule. */
struct request {
    enum edge_kind kind;
    enum step_source source;
    uint64_t ticks;
    int64_t samples, tokens;
    bool called;            /* EDGE_EPOCH: cprof_epoch() was called */
    steps_chooser *chooser; /* EDGE_SCHEDULE */
    void *arg;
    bool demand; /* EDGE_START, EDGE_STOP: of a window on demand; on the cprof thread */
};

static _Atomic uint32_t edge_lock; /* taken with futex_lock() */

/* edge_lock guards the following. Atomic ones are also read without it. */
static struct held_back holder_before; /* signals and cancellation as the lock's holder had them */
static struct schedule schedule;
static const struct config *_Atomic config; /* set once; NULL while cprof sleeps */
static _Atomic int64_t step;
static _Atomic int action;
static _Atomic bool keep;
static int last_mark = -1; /* enum step_source of the last mark that counted */
static bool running, ranked;
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
/* a thread is handling requests, perhaps without the lock; others only queue theirs */
static bool deciding;
static uint64_t decision; /* number of the current or last call of the program's schedule */
static pid_t decider;     /* thread that runs the program's schedule */
/* marks the decider has made since; it adds them without the lock */
static _Atomic unsigned ignored_marks;
static struct request waiting[WAITING + 1]; /* the last place is for the decider */
static unsigned n_waiting;

static _Atomic bool called; /* cprof_step() was used */

/* schedule_frame is the frame that called the program's schedule, NULL outside that call. has_lock
 * is also set while the thread waits for the lock: a signal handler on this thread must not wait
 * then. */
static __thread bool in_handler;
static __thread const char *schedule_frame;
static __thread volatile bool has_lock;
static __thread uint32_t marked_here;
static __thread bool epoch_pending; /* see steps_end_epoch_next() */

/* Blocks cancellation and signals while held: an edge reads files and calls CUPTI. Signals of
 * faults still come. */
static void lock(void)
{
    struct held_back before = hold_back();
    has_lock = true;
    atomic_signal_fence(memory_order_seq_cst);
    futex_lock(&edge_lock, -1);
    holder_before = before;
}

/* Gives up when a fault's signal handler ends the process on the thread that holds the lock. */
static bool lock_for_exit(void)
{
    if (has_lock)
        return false;
    struct held_back before = hold_back();
    has_lock = true;
    if (!futex_lock(&edge_lock, EXIT_WAIT_MS)) {
        has_lock = false;
        hold_back_end(&before);
        return false;
    }
    holder_before = before;
    return true;
}

static void unlock(void)
{
    struct held_back before = holder_before;
    futex_unlock(&edge_lock);
    atomic_signal_fence(memory_order_seq_cst);
    has_lock = false;
    hold_back_end(&before);
}

/* What to record in a step with this action. kept: step 0 of a program that may never mark a
 * step. */
static uint32_t gate_for(enum action next, bool kept)
{
    const struct config *c = config;
    uint32_t gate = 0;
    if (next >= ACTION_ACTIVE || kept)
        gate |= GATE_SPANS | GATE_MARKERS | (c->profile_memory ? GATE_MEMORY : 0u) |
                (c->activities & CONFIG_ACTIVITY_CUDA ? GATE_CALLS : 0u) |
                (c->with_flops ? GATE_FLOPS : 0u);
    if (next >= ACTION_ACTIVE && c->record_shapes)
        gate |= GATE_SHAPES;
    if (next == ACTION_WARMUP)
        gate |= GATE_MARKERS;
    if (next == ACTION_SKIP && !outside)
        gate |= GATE_SKIPPED;
    if ((gate & ~GATE_SKIPPED) && c->with_stack)
        gate |= GATE_STACKS;
    return gate;
}

static struct train_time time_at(uint64_t now_ns)
{
    struct train_time t = done;
    t.batch = atomic_load(&step);
    t.total_wct_ns = (int64_t)(now_ns - started_ns);
    t.epoch_wct_ns = (int64_t)(now_ns - epoch_ns);
    t.batch_wct_ns = (int64_t)(now_ns - step_ns);
    return t;
}

/* CUPTI may call hooked functions; the guard keeps cprof's own calls out of the trace. */
static void tell_gpu(void (*what)(bool), bool how)
{
    bool entered = guard_enter();
    what(how);
    if (entered)
        guard_leave();
}

/* Switches sources on before the next step's first instant, so that it is whole, and off after its
 * last one. */
static void cross(struct step_edge *edge, const struct request *r)
{
    static uint64_t last; /* ticks of the newest edge */
    bool over = edge->kind == EDGE_STOP || edge->kind == EDGE_LAST;
    bool record = edge->begun >= ACTION_ACTIVE || (edge->keep && !over);
    bool recorded = edge->ended >= ACTION_ACTIVE || edge->kept;
    bool same = edge->kept && edge->keep && edge->kind != EDGE_START; /* the kept step goes on */
    uint32_t gate = over ? 0 : gate_for(edge->begun, edge->keep);
    struct edge_change change = {
        .begins = record && !recorded,
        .ends = !record && recorded && edge->kind != EDGE_LAST, /* torch is not called at exit */
        /* the cprof thread does not refresh the rank */
        .ranked = edge->begun >= ACTION_ACTIVE && !ranked && !r->demand,
        .memory = (gate & GATE_MEMORY) && !same && (!gate_open(GATE_MEMORY) || edge->kept),
        .stacks = gate & GATE_STACKS,
    };
    if (change.ranked) {
        identity_refresh(); /* programs set RANK themselves before they train */
        ranked = true;
    }
    life_edge_before(&change);
    bool cuda = config->activities & CONFIG_ACTIVITY_CUDA;
    bool use_gpu = cuda && !over && (record || edge->begun == ACTION_WARMUP);
    if (use_gpu)
        tell_gpu(gpu_arm, !r->demand);
    writer_edge_begin();
    edge->ticks = r->ticks ? r->ticks : clock_ticks();
    if (edge->ticks < last) /* two threads can end ranges and mark in the other order */
        edge->ticks = last;
    last = edge->ticks;
    writer_set_gate(gate);
    writer_edge(edge);
    if (cuda && !over && !use_gpu && !r->demand)
        tell_gpu(gpu_edge, edge->kept && edge->ended < ACTION_ACTIVE);
    life_edge_after(&change);
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

static enum action valid_action(int answer)
{
    if (answer >= ACTION_SKIP && answer <= ACTION_ACTIVE_AND_SAVE)
        return (enum action)answer;
    steps_say_no_action(answer);
    return ACTION_SKIP;
}

/* The program's schedule was left without a return; the next request goes on without its answer. */
static void abandon(void)
{
    deciding = false;
    decision++;
    steps_say_no_answer();
}

/* Whether the thread that runs the program's schedule has exited. Under the lock. */
static bool decider_is_gone(void)
{
    int saved = errno;
    bool gone =
        deciding && syscall(SYS_tgkill, syscall(SYS_getpid), decider, 0) != 0 && errno == ESRCH;
    errno = saved;
    return gone;
}

/* Whether this thread's marks do not count: it runs a trace handler or the program's schedule. A
 * longjmp or an exception leaves the schedule without a return; then the stack pointer is above
 * schedule_frame (stacks grow down). A call from deeper in the stack looks like the schedule's.
 * Marks therefore count again after WAITING of them. */
static bool is_ignored(void)
{
    if (in_handler)
        return true;
    if (!schedule_frame)
        return false;
    if ((const char *)__builtin_frame_address(0) < schedule_frame && ++ignored_marks <= WAITING)
        return true;
    schedule_frame = NULL;
    lock();
    if (deciding && decider == (pid_t)syscall(SYS_gettid))
        abandon();
    unlock();
    return false;
}

/* Calls the program's schedule without the lock: it may wait for another thread that marks a step.
 * Returns false, without the lock, when the answer is too late or the process is over or a forked
 * child. */
static __attribute__((noinline)) bool ask(enum action *answer)
{
    uint64_t mine = decision;
    struct train_time time = time_at(clock_monotonic_ns());
    int64_t position = atomic_load(&step) - first_step;
    steps_chooser *choose = chooser;
    void *arg = chooser_arg;
    decider = (pid_t)syscall(SYS_gettid);
    ignored_marks = 0;
    unlock();
    schedule_frame = __builtin_frame_address(0);
    int given = choose(&time, position, arg);
    schedule_frame = NULL;
    if (atomic_load(&cprof_life) == LIFE_OVER)
        return false;
    lock();
    *answer = valid_action(given);
    if (decision == mine)
        return true;
    unlock();
    return false;
}

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

/* Chooses the action of the current step. False: as ask(). */
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
    if (chooser)
        return ask(answer);
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

/* False: as ask(). */
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
    cross(&edge, r);
    keep = edge.keep && r->kind != EDGE_STOP;
    return true;
}

/* True in a child of a plain clone(): nobody there releases the lock, and nothing is recorded. */
static bool is_cloned_child(void)
{
    int owner = cprof_owner_pid();
    return owner && owner != (int)syscall(SYS_getpid);
}

/* Handles queued requests, oldest first. Called with the lock, returns without it. */
static void serve_waiting(void)
{
    deciding = true;
    decision++;
    while (n_waiting > 0) {
        struct request r = waiting[0];
        n_waiting--;
        for (unsigned i = 0; i < n_waiting; i++)
            waiting[i] = waiting[i + 1];
        if (!handle(&r))
            return;
    }
    deciding = false;
    unlock();
}

static void serve(const struct request *given)
{
    if (atomic_load(&cprof_life) == LIFE_OVER || is_cloned_child())
        return; /* in a forked child, a thread that does not exist may hold the lock */
    if (has_lock) {
        steps_say_in_handler();
        return;
    }
    if (!given->demand && is_ignored()) /* the cprof thread runs handlers and requests windows */
        return;
    if (given->kind == EDGE_STEP && given->source == STEP_CALL)
        atomic_store(&called, true);
    lock();
    if (decider_is_gone())
        abandon();
    if (n_waiting < WAITING || !deciding)
        waiting[n_waiting++] = *given;
    else
        steps_say_too_many(WAITING);
    if (deciding)
        unlock();
    else
        serve_waiting();
    life_edge_settle();
}

/* ---- calls ---- */

void steps_start(const struct config *given, bool keep_unmarked)
{
    lock();
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
    cross(&edge, &(struct request){.kind = EDGE_FIRST});
    keep = edge.keep;
    running = true;
    unlock();
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

void steps_ignore_thread(void)
{
    in_handler = true;
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
    if (atomic_load(&cprof_life) != LIFE_AWAKE || is_cloned_child())
        return STEPS_REFUSED;
    lock();
    enum steps_answer answer = demand(steps, from, first);
    unlock();
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
    return steps_action() != ACTION_SKIP || atomic_load_explicit(&keep, memory_order_relaxed);
}

static bool counts_epochs(void)
{
    return schedule.scope == SCHEDULE_EPOCH || strstr(config->filename, "epoch}");
}

void steps_finish(void)
{
    if (!lock_for_exit())
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
        cross(&edge, &(struct request){.kind = EDGE_LAST});
        atomic_store(&action, ACTION_SKIP);
        running = false;
    }
    unlock();
    if (optimizerless)
        steps_say_no_optimizer(config_step_name(CONFIG_STEP_OPTIMIZER));
    if (unreached)
        steps_say_unreached(&schedule, unreached);
    else if (epochless)
        steps_say_no_epoch(&schedule, atomic_load(&step));
}
