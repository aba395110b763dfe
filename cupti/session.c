/* SPDX-License-Identifier: Apache-2.0 */
/* The session with CUPTI: its state, who may change it, and what other clients of CUPTI do to it.
 *
 *   NONE --gpu_start--> READY or AWAY
 *   READY --another client begins--> LEAVING --> OTHER, or DETACHED where it finalizes CUPTI
 *   READY --nothing is to be recorded, and the kinds are off--> LEAVING --> AWAY
 *   AWAY, OTHER, DETACHED --a window begins and nobody else is at work--> READY
 *   any --CUPTI ends by itself, or the process ends--> OVER
 *
 * The lock guards the state and is held while kinds are switched; never during a flush, which can
 * take long. Every wait for it has an end, so that a CUPTI that hangs on one thread does not take
 * others along. */
#include "cupti/gpu_trace.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "cupti/attach.h"
#include "cupti/bind.h"
#include "cupti/buffers.h"
#include "cupti/callback.h"
#include "cupti/collect.h"
#include "cupti/devices.h"
#include "cupti/other_client.h"
#include "cupti/recorded.h"
#include "cupti/switch.h"
#include "writer/writer.h"

#define PRESENT_BYTES (UINT64_C(1) << 30) /* of buffers at once */
#define WAIT_CPROF_MS 20                  /* for the lock; the next pass tries again */
#define WAIT_APP_MS   2000
#define WAIT_FORK_MS  100
#define STOP_MS       100
#define LATE_MS       100  /* what a forced flush brings comes within that */
#define ASKED_MS      1000 /* so long a gpu_arm() holds before the cprof thread has seen its step */
#define LOOK_MS       1000 /* between looks for an edge, while kinds are on for nothing */
#define RETRY_MS      20   /* where the lock was not to be had */
#define NO_EDGE_MS    120000 /* no step's edge came: the cprof thread switches off */

/* cuptiGetVersion() from which on … */
#define MAY_REFUSE 27 /* 12.9: … a NULL buffer is safe */
/* 12.6: … graphs may be traced as a whole: the release notes of 12.4 Update 1 and of 12.5 Update 1
 * mend crashes of that, and these have the numbers of 12.4 and 12.5 */
#define GRAPHS_WHOLE 24
/* 13.0 as first released; the notes of its Update 1: "a potential deadlock" when kernels are
 * disabled, "a potential crash" in FlushAll, and a crash of long runs with graphs whose kernels'
 * times are kept in device memory. So kernels stay on once they are, only what ends a window is
 * flushed, as seldom as others do it, and times are kept in the host's memory. */
#define FRAIL          130000
#define FRAIL_FLUSH_NS 250000000u
enum phase {
    PHASE_NONE,
    PHASE_READY,    /* CUPTI is ours */
    PHASE_LEAVING,  /* it is being given back; the lock may be free meanwhile */
    PHASE_AWAY,     /* given back: nothing is to be recorded */
    PHASE_OTHER,    /* given back: another client is at work */
    PHASE_DETACHED, /* another client has finalized it */
    PHASE_OVER      /* CUPTI is not called any more */
};

static struct gpu_options options;
static struct cupti api;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER; /* one flush at a time */

static _Atomic bool begun; /* gpu_start() was called; any thread */
static _Atomic bool dead;  /* forked child; its one thread writes, all read */
/* the cprof thread may be calling CUPTI; it writes, source_stop() reads */
static _Atomic bool at_work;
static _Atomic int phase; /* enum phase; written under the lock or when CUPTI ends, read anywhere */
static _Atomic bool armed; /* kinds are on; written as phase, read anywhere */
/* ticks of the last gpu_arm(), or gpu_start() that arms, whose step the cprof thread has not come
 * to; 0 = none */
static _Atomic uint64_t asked;
/* clock_monotonic_ns() since when the kinds are on for nothing and may go off; 0: they are off, or
 * something is recorded. Written under the lock, read anywhere. */
static _Atomic uint64_t unwanted_since;
/* clock_monotonic_ns() when the flush in progress began; 0 = none; the flushing thread writes,
 * gpu_arm() reads */
static _Atomic uint64_t flushing_since;
/* the same: when the lock was taken that is held; its holder writes, who wants it reads */
static _Atomic uint64_t held_since;
/* What another client did to which nobody has reacted yet, as the phase that follows; PHASE_NONE:
 * nothing. Any thread. */
static _Atomic int owed;
/* the call that registers its buffers, or ends CUPTI, was made before anybody could react */
static _Atomic bool came_late;

/* Under the lock. */
static struct held_back holder_before; /* the holder's thread once it lets go */
static bool calls_on;                  /* calls are among the kinds that were switched on last */
static _Atomic bool filtered;          /* since the kinds are on; read anywhere */
static bool came_back;                 /* at least once: said */
static bool stood_down;                /* the same */

/* The cprof thread's. */
static enum gpu_want wanted;
static uint64_t flushed_ns; /* clock_monotonic_ns() of its last flush */

/* True while this thread is inside gpu_…: what CUPTI calls from there is not another client. */
static __thread bool inside;

/* ---- small things ---- */

static bool usable(void)
{
    return !atomic_load_explicit(&dead, memory_order_relaxed) && !collect_stopped() &&
           atomic_load_explicit(&phase, memory_order_acquire) != PHASE_NONE &&
           atomic_load_explicit(&phase, memory_order_relaxed) != PHASE_OVER;
}

static bool in_phase(enum phase p)
{
    return atomic_load_explicit(&phase, memory_order_acquire) == (int)p;
}

static bool is_unwanted(void)
{
    return atomic_load(&unwanted_since) != 0;
}

static bool is_recording(void)
{
    return atomic_load(&armed) && !is_unwanted();
}

static void set_phase(enum phase p)
{
    atomic_store_explicit(&phase, (int)p, memory_order_release);
}

static bool is_long_ago(uint64_t monotonic_ns)
{
    return monotonic_ns && clock_monotonic_ns() - monotonic_ns > WAIT_APP_MS * 1000000ull;
}

/* False: not within so long; at once where it has been held for longer than anybody waits: a CUPTI
 * that hangs while kinds are switched costs the program one wait, not one at each step. */
static bool take_lock(long ms)
{
    struct held_back before = hold_back();
    if (!lock_within(&lock, is_long_ago(atomic_load(&held_since)) ? 0 : ms)) {
        hold_back_end(&before);
        return false;
    }
    holder_before = before;
    atomic_store(&held_since, clock_monotonic_ns());
    return true;
}

static void leave_lock(void)
{
    struct held_back before = holder_before;
    atomic_store(&held_since, 0);
    pthread_mutex_unlock(&lock);
    hold_back_end(&before);
}

/* Takes the lock when CUPTI is not just being given back: the flush of that can take milliseconds.
 * An application thread; false: not within WAIT_APP_MS. */
static bool take_lock_settled(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; take_lock(WAIT_APP_MS); ms++) {
        if (!in_phase(PHASE_LEAVING) || ms == WAIT_APP_MS)
            return true;
        leave_lock();
        nanosleep(&pause, NULL);
    }
    return false;
}

static bool frail(void)
{
    return api.version == FRAIL;
}

/* CUPTI cannot be given back between windows: kernels cannot be switched off, or graphs must be
 * known when they are made. */
static bool keeps_cupti(void)
{
    return frail() || options.whole_graphs;
}

/* Of what switch_on() enables, between windows. */
static unsigned stays_on(void)
{
    return (frail() ? SWITCH_KERNELS : 0) | (options.whole_graphs ? SWITCH_GRAPHS : 0);
}

/* CUPTI met an error and detached itself; no call is allowed any more. Any thread, inside CUPTI, so
 * without the lock. */
static void gone(const char *why)
{
    set_phase(PHASE_OVER);
    atomic_store(&armed, false);
    recorded_end();
    buffers_forget();
    log_warn("CUPTI ended: %s; GPU activity is no longer recorded", why);
    writer_note("CUPTI ended with an error; GPU activity is missing from then on");
}

/* ---- kinds; under the lock ---- */

static void arm(bool initializing)
{
    if (!in_phase(PHASE_READY) || is_recording())
        return;
    buffers_unread_from(UINT64_MAX);
    if (!atomic_load(&armed)) {
        calls_on = switch_on(&api, &options, initializing);
        atomic_store(&filtered, false);
    }
    if (calls_on)
        recorded_begin();
    atomic_store(&unwanted_since, 0);
    atomic_store(&armed, true);
}

static void disarm(void)
{
    if (!atomic_load(&armed))
        return;
    recorded_end();
    atomic_store(&armed, false);
    atomic_store(&unwanted_since, 0);
    switch_off(&api, stays_on());
    if (stays_on())
        buffers_unread_from(clock_ticks());
}

/* ---- beginning; under the lock ---- */

static void no_gpu(const char *doing, int result)
{
    set_phase(PHASE_OVER);
    log_info("CUPTI (%s) cannot %s: %s (%d); CUDA calls are recorded, GPU activity is not",
             api.path, doing, bind_error(&api, result), result);
}

#define OTHER_NOTE "another CUPTI client was at work; GPU activity is missing where it was"

/* Before anything is taken from CUPTI: a window that ends meanwhile lacks it. */
static void say_other(bool from_start)
{
    writer_gap(OTHER_NOTE, true);
    if (!stood_down) {
        log_warn(
            "another CUPTI client %s; its GPU activity is not recorded by cprof, CUDA calls are",
            from_start ? "is at work in this process" : "begins in this process");
    }
    stood_down = true;
}

static void look_at_graphs(void)
{
    if (!options.whole_graphs || api.version >= GRAPHS_WHOLE)
        return;
    options.whole_graphs = false;
    log_warn("CPROF_GPU_GRAPHS=whole: with CUPTI %u (%s), older than CUDA 12.6, that can end the "
             "program; graphs are recorded node by node",
             api.version, api.path);
}

static void look_at_version(void)
{
    look_at_graphs();
    if (frail())
        log_warn(
            "CUPTI %u (%s) may hang when kernels are switched off: once a window began they stay "
            "on, and a killed program loses more; the libcupti of CUDA 13.0 Update 1 has it "
            "mended",
            api.version, api.path);
}

/* Returns CUPTI_MULTIPLE_SUBSCRIBERS while another client is at work. */
static int take_cupti(bool initializing)
{
    const struct callback_to to = {.gone = gone, .ready = options.driver_ready};
    int result = attach(&api, &to, stays_on(), initializing);
    if (result == CUPTI_OK)
        set_phase(PHASE_READY);
    return result;
}

/* take_cupti() failed where no other client was known to be at work. */
static void not_taken(int result)
{
    if (result != CUPTI_MULTIPLE_SUBSCRIBERS) {
        no_gpu("start", result);
        return;
    }
    set_phase(PHASE_OTHER);
    say_other(true);
}

static bool prepare_session(void)
{
    uint64_t now;
    if (!buffers_start(options.buffer_bytes, PRESENT_BYTES, api.version >= MAY_REFUSE)) {
        set_phase(PHASE_OVER);
        log_warn("no memory for CUPTI's buffers; GPU activity is not recorded");
        return false;
    }
    int result = api.get_timestamp(&now);
    if (result != CUPTI_OK) {
        no_gpu("tell the time", result);
        return false;
    }
    look_at_version();
    switch_learn(&api);
    collect_start(&api, options.dump_path);
    log_debug("CUPTI %u from %s", api.version, api.path);
    return true;
}

static void start(bool arm_now, bool initializing)
{
    if (!prepare_session())
        return;
    if (!arm_now && !keeps_cupti()) {
        set_phase(PHASE_AWAY);
        return;
    }
    int result = take_cupti(initializing);
    if (result != CUPTI_OK) {
        not_taken(result);
    } else if (arm_now) {
        atomic_store(&asked, clock_ticks());
        arm(initializing);
    }
}

/* A window begins: takes CUPTI again, unless another client is at work. */
static void come_back(void)
{
    bool away = in_phase(PHASE_AWAY);
    if (!away && !in_phase(PHASE_OTHER) && !in_phase(PHASE_DETACHED))
        return;
    int result = take_cupti(false);
    if (result != CUPTI_OK && away)
        not_taken(result);
    if (result != CUPTI_OK || away)
        return;
    writer_gap(OTHER_NOTE, false);
    if (!came_back)
        log_info("the other CUPTI client is idle; GPU activity is recorded again");
    came_back = true;
}

void gpu_configure(const struct gpu_options *given)
{
    options = *given;
}

void gpu_start(bool arm_now, bool initializing)
{
    if (atomic_load(&dead) || atomic_exchange(&begun, true))
        return;
    inside = true;
    enum bind_result found = bind_open(&api);
    if (found == BIND_NO_GPU)
        no_gpu("start", api.error);
    else if (found != BIND_DONE)
        bind_say_missing(&api, found);
    else if (take_lock(WAIT_APP_MS)) {
        start(arm_now, initializing);
        leave_lock();
    }
    inside = false;
}

/* A flush takes so long that another call might wait for it as long. */
static bool seems_hung(void)
{
    return is_long_ago(atomic_load(&flushing_since));
}

static bool is_owed(void)
{
    return atomic_load(&owed) != PHASE_NONE;
}

void gpu_arm(bool between_calls)
{
    if (!usable() || writer_is_off())
        return;
    atomic_store(&asked, clock_ticks());
    if ((is_recording() && (atomic_load(&filtered) || !between_calls)) || seems_hung())
        return;
    inside = true;
    if (take_lock_settled()) {
        if (!is_owed()) {
            come_back();
            arm(false);
        }
        if (between_calls && is_recording() && !atomic_exchange(&filtered, true))
            switch_filter(&api);
        leave_lock();
    }
    inside = false;
}

/* ---- other clients ---- */

static void note_other(enum gpu_other what, int kind)
{
    other_client_note(what, kind);
    if (what == GPU_OTHER_SUBSCRIBES || what == GPU_OTHER_BUFFERS)
        atomic_store(&owed, PHASE_OTHER);
    else if (what == GPU_OTHER_FINALIZES)
        atomic_store(&owed, PHASE_DETACHED);
}

static void flush(uint32_t flag)
{
    static _Atomic bool said; /* any thread */
    bool forced = flag == CUPTI_FLUSH_FORCED;
    uint64_t began = clock_ticks();
    atomic_store(&flushing_since, clock_monotonic_ns());
    buffers_forced(forced);
    int result = api.flush_all(flag);
    if (forced && result == CUPTI_OK)
        buffers_await(began, LATE_MS);
    buffers_forced(false);
    atomic_store(&flushing_since, 0);
    if (result == CUPTI_OK || atomic_exchange(&said, true))
        return;
    log_warn(
        "CUPTI (%s) cannot flush: %s (%d); GPU activity is missing where it gives no full buffer",
        api.path, bind_error(&api, result), result);
    writer_note("CUPTI could not be flushed; GPU activity is missing");
}

/* Under flush_lock, which it gives back, and the lock, which is not held meanwhile. False: the lock
 * is not to be had again, because a call of CUPTI hangs; then no more calls are made. */
static bool flush_all(void)
{
    leave_lock();
    flush(CUPTI_FLUSH_PLAIN);
    flush(CUPTI_FLUSH_FORCED);
    pthread_mutex_unlock(&flush_lock);
    if (take_lock(WAIT_APP_MS))
        return true;
    set_phase(PHASE_OVER);
    return false;
}

static void leave_cupti(enum phase then)
{
    detach(&api);
    buffers_forget();
    set_phase(then);
}

/* Leaves everything as another client expects to find it: no kind of ours on, none of our buffers
 * in use. Under flush_lock and the lock, which it both gives back. late: the other has registered
 * its buffers already, and a flush would give it ours; then flush_lock is not held. */
static void give_back(enum phase then, bool late)
{
    set_phase(PHASE_LEAVING);
    disarm();
    switch_last(&api, stays_on());
    if (!late && !flush_all())
        return;
    if (in_phase(PHASE_LEAVING)) /* else CUPTI ended meanwhile */
        leave_cupti(then);
    leave_lock();
}

/* Another client begins. Gives the lock back. late: as in give_back(). */
static void stand_down(enum phase then, bool late)
{
    /* what is on for nothing, or just off, is missed by nobody */
    bool quiet = is_unwanted() || (!atomic_load(&armed) && !keeps_cupti());
    if (!quiet)
        say_other(false);
    else if (then == PHASE_OTHER)
        then = PHASE_AWAY;
    if (late || lock_within(&flush_lock, WAIT_APP_MS)) {
        give_back(then, late);
        return;
    }
    set_phase(PHASE_OVER); /* a flush hangs, as any call would */
    leave_lock();
}

/* Does what is owed to another client. Under the lock, which it gives back. */
static void react(void)
{
    if (in_phase(PHASE_LEAVING)) { /* another thread is just doing so: later */
        leave_lock();
        return;
    }
    enum phase then = (enum phase)atomic_exchange(&owed, PHASE_NONE);
    bool late = atomic_exchange(&came_late, false);
    if (then != PHASE_NONE && in_phase(PHASE_READY)) {
        stand_down(then, late);
        return;
    }
    if (then == PHASE_DETACHED && in_phase(PHASE_OTHER))
        set_phase(then);
    leave_lock();
}

/* Where the lock is not to be had the cprof thread reacts later. */
void gpu_other_client(enum gpu_other what, int kind)
{
    if (inside || atomic_load(&dead))
        return;
    int saved = errno, cancel = cancel_off();
    inside = true;
    note_other(what, kind);
    if (is_owed() && take_lock_settled())
        react();
    else if (is_owed() && what != GPU_OTHER_SUBSCRIBES)
        atomic_store(&came_late, true);
    inside = false;
    cancel_back(cancel);
    errno = saved;
}

/* ---- the cprof thread ---- */

/* True while a gpu_arm() holds whose step the cprof thread has not come to yet: it must not switch
 * off what was just switched on. */
static bool asked_just_now(void)
{
    uint64_t since = atomic_load(&asked);
    return since && (double)(clock_ticks() - since) < clock_ticks_per_second() * ASKED_MS / 1e3;
}

/* Records that come from now on are for nobody. Under the lock. */
static void let_go(void)
{
    atomic_store(&unwanted_since, clock_monotonic_ns());
    if (asked_just_now()) { /* by a thread that saw the kinds on, and went on */
        atomic_store(&unwanted_since, 0);
        return;
    }
    recorded_end();
    buffers_unread_from(clock_ticks());
}

static bool no_edge_comes(void)
{
    uint64_t since = atomic_load(&unwanted_since);
    return since && clock_monotonic_ns() - since > NO_EDGE_MS * 1000000ull;
}

/* Nothing is to be recorded. What CUPTI still holds was made after the last window. Under the lock,
 * which it gives back. */
static void rest(void)
{
    if (no_edge_comes())
        disarm();
    else if (is_recording())
        let_go();
    bool off = !atomic_load(&armed) && in_phase(PHASE_READY) && !keeps_cupti();
    if (off && pthread_mutex_trylock(&flush_lock) == 0) {
        buffers_unread_from(0);
        if (!flush_all())
            return;
        if (!atomic_load(&armed) && in_phase(PHASE_READY))
            leave_cupti(PHASE_AWAY);
    }
    leave_lock();
}

/* Where the recording of calls goes off while a thread is in a CUDA call, CUPTI takes it to be in
 * that call for ever: it records no later call of it, and its kernels carry the id of that one
 * (13.0 Update 1, on an H200). So the stepping thread, which is in none, switches off. */
void gpu_edge(bool at_once)
{
    if (!usable() || (!is_unwanted() && !(at_once && atomic_load(&armed))))
        return;
    inside = true;
    if (take_lock(0)) {
        if (is_unwanted() || at_once)
            disarm();
        atomic_store(&asked, 0);
        leave_lock();
        writer_wake(); /* the cprof thread gives CUPTI back */
    }
    inside = false;
}

/* A gpu_arm() may have been for a step that was over before this thread looked: then CUPTI is ours,
 * though nothing was wanted here since. */
static bool is_so(enum gpu_want want)
{
    if (want != GPU_WANT_NOTHING || wanted != GPU_WANT_NOTHING)
        return want == wanted;
    if (atomic_load_explicit(&armed, memory_order_relaxed))
        return is_unwanted() && !no_edge_comes();
    return !in_phase(PHASE_READY) || keeps_cupti();
}

static void look_around(enum gpu_want want)
{
    if (atomic_load_explicit(&armed, memory_order_relaxed))
        collect_clock();
    if (!in_phase(PHASE_OTHER) && want != GPU_WANT_NOTHING)
        buffers_refill();
    if (is_owed() && take_lock(WAIT_CPROF_MS))
        react();
    if (is_so(want) || (want == GPU_WANT_NOTHING && asked_just_now()) || !take_lock(WAIT_CPROF_MS))
        return;
    buffers_small(want == GPU_WANT_SOON);
    wanted = want;
    if (want != GPU_WANT_NOTHING) {
        atomic_store(&asked, 0);
        leave_lock();
        return;
    }
    if (is_owed())
        react();
    else
        rest();
    buffers_trim();
}

/* Either source_stop() sees the thread at work, or the thread sees that all is over. */
static bool begin_work(void)
{
    atomic_store(&at_work, true);
    inside = usable();
    atomic_store(&at_work, inside);
    return inside;
}

static void end_work(void)
{
    inside = false;
    atomic_store(&at_work, false);
}

static int source_want(enum gpu_want want)
{
    if (!begin_work())
        return -1;
    look_around(want);
    int again_ms = is_so(want) ? -1 : RETRY_MS;
    if (is_unwanted())
        again_ms = LOOK_MS; /* whether an edge has come */
    end_work();
    return again_ms;
}

static bool may_flush(enum gpu_flush how)
{
    uint64_t now = clock_monotonic_ns();
    if (how == GPU_FLUSH_NONE || !in_phase(PHASE_READY))
        return false;
    if (frail() && how == GPU_FLUSH_PLAIN &&
        (wanted != GPU_WANT_SOON || now - flushed_ns < FRAIL_FLUSH_NS))
        return false;
    flushed_ns = now;
    return true;
}

static uint64_t source_collect(enum gpu_flush how,
                               void (*each)(const struct gpu_record *r, void *arg), void *arg,
                               struct gpu_faults *faults)
{
    if (!begin_work())
        return 0;
    if (may_flush(how) && pthread_mutex_trylock(&flush_lock) == 0) {
        flush(how == GPU_FLUSH_FORCED ? CUPTI_FLUSH_FORCED : CUPTI_FLUSH_PLAIN);
        pthread_mutex_unlock(&flush_lock);
    }
    uint64_t records =
        collect_buffers(in_phase(PHASE_READY), how == GPU_FLUSH_FORCED, each, arg, faults);
    end_work();
    return records;
}

static bool source_returned(uint64_t ticks)
{
    return !usable() || buffers_returned(ticks);
}

static const char *source_versions_json(void)
{
    return usable() ? bind_versions_json(&api) : "";
}

static void source_stop(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    if (!usable())
        return;
    collect_stop();
    for (int i = 0; i < STOP_MS && atomic_load(&at_work); i++)
        nanosleep(&pause, NULL);
}

/* Never cuptiFinalize. A flush that is still under way means that CUPTI hangs: then nothing is
 * called. */
static void source_finish(void)
{
    if (!begin_work())
        return;
    if (pthread_mutex_trylock(&flush_lock) != 0) {
        end_work();
        return;
    }
    if (take_lock(WAIT_CPROF_MS)) {
        disarm();
        switch_last(&api, stays_on());
        if (in_phase(PHASE_READY))
            detach(&api);
        set_phase(PHASE_OVER);
        leave_lock();
    }
    pthread_mutex_unlock(&flush_lock);
    end_work();
}

const struct gpu_source *gpu_source(void)
{
    static const struct gpu_source source = {
        .want = source_want,
        .collect = source_collect,
        .returned = source_returned,
        .calls_since = recorded_since,
        .recorded = recorded_at,
        .devices_json = gpu_devices_json,
        .versions_json = source_versions_json,
        .device_name = gpu_device_name,
        .peak_tflops = gpu_device_peak,
        .stop = source_stop,
        .stopped = collect_stopped,
        .finish = source_finish,
    };
    return &source;
}

static bool fork_flush, fork_lock; /* gpu_fork_begin() holds them; the forking thread's */

void gpu_fork_begin(void)
{
    if (inside || atomic_load(&dead) || in_phase(PHASE_NONE))
        return;
    fork_flush = lock_within(&flush_lock, WAIT_FORK_MS);
    fork_lock = fork_flush && take_lock(WAIT_FORK_MS);
}

void gpu_fork_end(void)
{
    if (fork_lock)
        leave_lock();
    if (fork_flush)
        pthread_mutex_unlock(&flush_lock);
    fork_lock = fork_flush = false;
}

void gpu_abandon(void)
{
    atomic_store(&dead, true);
    callback_abandon();
}
