/* SPDX-License-Identifier: Apache-2.0 */
/* The session with CUPTI: its phase, who may change it, and how it reacts to other CUPTI clients.
 *
 *   NONE --gpu_start--> READY or AWAY
 *   READY --another client begins--> LEAVING --> OTHER, or DETACHED if it finalizes CUPTI
 *   READY --nothing is recorded, and the kinds are off--> LEAVING --> AWAY
 *   AWAY, OTHER, DETACHED --a window begins and no other client is at work--> READY
 *   any --CUPTI ends by itself, or the process ends--> OVER
 *
 * The lock guards the phase and is held while kinds are switched. It is never held during a flush,
 * which can take long. Every wait for it is limited, so that one thread that hangs in CUPTI does
 * not stop others. */
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
#include "cupti/nvml.h"
#include "cupti/other_client.h"
#include "cupti/recorded.h"
#include "cupti/switch.h"
#include "cupti/telemetry.h"
#include "writer/writer.h"

#define PRESENT_BYTES (UINT64_C(1) << 30) /* most memory of buffers at once */
#define WAIT_CPROF_MS 20                  /* for the lock; the next pass tries again */
#define WAIT_APP_MS   2000
#define WAIT_FORK_MS  100
#define STOP_MS       100
#define LATE_MS       100 /* a forced flush delivers its buffers within that */
/* after a gpu_arm() the cprof thread, which may not know its step yet, disables nothing for so
 * long */
#define ARMED_MS   1000
#define LOOK_MS    1000   /* between checks for an edge, while kinds are on but unwanted */
#define RETRY_MS   20     /* after the lock was not free */
#define NO_EDGE_MS 120000 /* without an edge for so long, the cprof thread disables the kinds */

/* Least cuptiGetVersion(). */
#define MAY_REFUSE 27 /* 12.9: a request may be refused with a NULL buffer */
/* 12.6: whole graphs are safe. The release notes of 12.4 Update 1 and 12.5 Update 1 fix crashes
 * there, but these have the same numbers as 12.4 and 12.5. */
#define GRAPHS_WHOLE 24
/* The first 13.0. The notes of its Update 1 name "a potential deadlock" when kernels are disabled,
 * "a potential crash" in FlushAll, and a crash of long runs with graphs whose kernels' times are
 * kept in device memory. Therefore kernels stay on once enabled, cprof flushes only at the end of a
 * window, at most each 250 ms, and times are kept in host memory. */
#define FIRST_13_0          130000
#define FIRST_13_0_FLUSH_NS 250000000u
enum phase {
    PHASE_NONE,
    PHASE_READY,    /* cprof uses CUPTI */
    PHASE_LEAVING,  /* releasing CUPTI; the lock may be free meanwhile */
    PHASE_AWAY,     /* released: nothing is to be recorded */
    PHASE_OTHER,    /* released: another client is at work */
    PHASE_DETACHED, /* another client has finalized CUPTI */
    PHASE_OVER      /* CUPTI is never called again */
};

static struct gpu_options options;
static struct cupti api;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER; /* one flush at a time */

static _Atomic bool started; /* gpu_start() was called; any thread */
static _Atomic bool dead;    /* in a forked child; its one thread writes, all read */
/* the cprof thread may be inside CUPTI; it writes, source_stop() reads */
static _Atomic bool at_work;
static _Atomic int phase; /* enum phase; written under the lock or when CUPTI ends, read anywhere */
static _Atomic bool armed; /* the kinds are enabled; written as phase, read anywhere */
/* Ticks of the last gpu_arm(), or gpu_start() that arms, for a step that the cprof thread has not
 * reached; 0: none. */
static _Atomic uint64_t armed_at;
/* clock_monotonic_ns() since when the kinds are enabled but no record is wanted; 0: they are
 * disabled or wanted. Written under the lock, read anywhere. */
static _Atomic uint64_t unwanted_since;
/* clock_monotonic_ns() at the start of the flush in progress; 0: none. The flushing thread writes,
 * gpu_arm() reads. */
static _Atomic uint64_t flushing_since;
/* clock_monotonic_ns() when the lock was taken; 0: free. Its holder writes, waiting threads
 * read. */
static _Atomic uint64_t held_since;
/* Another client's call that cprof has not reacted to, as the phase that follows; PHASE_NONE: none.
 * Any thread. */
static _Atomic int pending_phase;
/* The other client registered its buffers, or finalized CUPTI, before cprof could react. */
static _Atomic bool reacts_late;

/* Under the lock. */
static struct held_back holder_before; /* restored when the holder releases the lock */
static bool calls_on;                  /* switch_on() enabled calls */
static _Atomic bool filtered;          /* switch_filter() was called for them; read anywhere */

/* cprof thread. */
static enum gpu_want wanted;
static uint64_t flushed_ns; /* clock_monotonic_ns() of its last flush */

/* True while this thread is in a gpu_… function: callbacks from there are not another client's
 * calls. */
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

/* Takes the lock within `ms`, or returns false. Does not wait when the lock has been held for
 * longer than WAIT_APP_MS: if CUPTI hangs while kinds are switched, the program loses one wait, not
 * one per step. */
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

static void release_lock(void)
{
    struct held_back before = holder_before;
    atomic_store(&held_since, 0);
    pthread_mutex_unlock(&lock);
    hold_back_end(&before);
}

/* Takes the lock, but not while CUPTI is being released, whose flush can take milliseconds. False:
 * not within WAIT_APP_MS. Application thread. */
static bool take_lock_settled(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; take_lock(WAIT_APP_MS); ms++) {
        if (!in_phase(PHASE_LEAVING) || ms == WAIT_APP_MS)
            return true;
        release_lock();
        nanosleep(&pause, NULL);
    }
    return false;
}

static bool is_first_13_0(void)
{
    return api.version == FIRST_13_0;
}

/* Whether CUPTI is kept between windows: kernels cannot be disabled, or graphs must be seen when
 * they are instantiated. */
static bool keeps_cupti(void)
{
    return is_first_13_0() || options.whole_graphs;
}

/* Kinds of switch_on() that stay on between windows. */
static unsigned stays_on(void)
{
    return (is_first_13_0() ? SWITCH_KERNELS : 0) | (options.whole_graphs ? SWITCH_GRAPHS : 0);
}

/* CUPTI met an error and detached itself; no more calls are allowed. Any thread, inside CUPTI, so
 * without the lock. */
static void ended(const char *why)
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

/* Call before CUPTI is released, so that a window that ends meanwhile has the note. */
static void warn_other(bool from_start)
{
    writer_gap(OTHER_NOTE, true);
    if (once_here())
        log_warn(
            "another CUPTI client %s; its GPU activity is not recorded by cprof, CUDA calls are",
            from_start ? "is at work in this process" : "begins in this process");
}

static void check_graphs(void)
{
    if (!options.whole_graphs || api.version >= GRAPHS_WHOLE)
        return;
    options.whole_graphs = false;
    log_warn("CPROF_GPU_GRAPHS=whole: CUPTI %u (%s), older than CUDA 12.6, can crash the program "
             "with it; graphs are recorded node by node",
             api.version, api.path);
}

static void check_version(void)
{
    check_graphs();
    if (is_first_13_0())
        log_warn(
            "CUPTI %u (%s) may hang when kernels are switched off; they stay on after the first "
            "window, and a killed program loses more. The libcupti of CUDA 13.0 Update 1 or newer "
            "is fixed",
            api.version, api.path);
}

/* Returns CUPTI_MULTIPLE_SUBSCRIBERS while another client is at work. */
static int take_cupti(bool initializing)
{
    const struct callback_to to = {.ended = ended, .ready = options.driver_ready};
    int result = attach(&api, &to, stays_on(), initializing);
    if (result == CUPTI_OK)
        set_phase(PHASE_READY);
    return result;
}

/* take_cupti() failed while no other client was known to be at work. */
static void not_taken(int result)
{
    if (result != CUPTI_MULTIPLE_SUBSCRIBERS) {
        no_gpu("start", result);
        return;
    }
    set_phase(PHASE_OTHER);
    warn_other(true);
}

static bool prepare_session(void)
{
    uint64_t now;
    if (!buffers_start(options.buffer_bytes, PRESENT_BYTES, api.version >= MAY_REFUSE)) {
        set_phase(PHASE_OVER);
        log_warn("no memory for CUPTI's buffers; CUDA calls are recorded, GPU activity is not");
        return false;
    }
    int result = api.get_timestamp(&now);
    if (result != CUPTI_OK) {
        no_gpu("return a time stamp", result);
        return false;
    }
    check_version();
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
        atomic_store(&armed_at, clock_ticks());
        arm(initializing);
    }
}

/* A window begins: takes CUPTI again, unless another client is at work. */
static void retake_cupti(void)
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
    if (once_here())
        log_info("the other CUPTI client is idle; GPU activity is recorded again");
}

void gpu_configure(const struct gpu_options *given)
{
    options = *given;
}

void gpu_start(bool arm_now, bool initializing)
{
    if (atomic_load(&dead) || atomic_exchange(&started, true))
        return;
    inside = true;
    enum bind_result found = bind_open(&api);
    if (found == BIND_NO_GPU) {
        no_gpu("start", api.error);
    } else if (found != BIND_DONE) {
        bind_say_missing(&api, found);
    } else if (take_lock(WAIT_APP_MS)) {
        start(arm_now, initializing);
        release_lock();
    }
    inside = false;
}

/* Whether a flush takes so long that CUPTI may hang in any other call, too. */
static bool seems_hung(void)
{
    return is_long_ago(atomic_load(&flushing_since));
}

static bool is_pending(void)
{
    return atomic_load(&pending_phase) != PHASE_NONE;
}

void gpu_arm(bool between_calls)
{
    if (!usable() || writer_is_off())
        return;
    atomic_store(&armed_at, clock_ticks());
    if ((is_recording() && (atomic_load(&filtered) || !between_calls)) || seems_hung())
        return;
    inside = true;
    if (take_lock_settled()) {
        if (!is_pending()) {
            retake_cupti();
            arm(false);
        }
        if (between_calls && is_recording() && !atomic_exchange(&filtered, true))
            switch_filter(&api);
        release_lock();
    }
    inside = false;
}

/* ---- other clients ---- */

static void note_other(enum gpu_other what, int kind)
{
    other_client_note(what, kind);
    if (what == GPU_OTHER_SUBSCRIBES || what == GPU_OTHER_BUFFERS)
        atomic_store(&pending_phase, PHASE_OTHER);
    else if (what == GPU_OTHER_FINALIZES)
        atomic_store(&pending_phase, PHASE_DETACHED);
}

static void flush(uint32_t flag)
{
    bool forced = flag == CUPTI_FLUSH_FORCED;
    uint64_t began = clock_ticks();
    atomic_store(&flushing_since, clock_monotonic_ns());
    buffers_forced(forced);
    int result = api.flush_all(flag);
    if (forced && result == CUPTI_OK)
        buffers_await(began, LATE_MS);
    buffers_forced(false);
    atomic_store(&flushing_since, 0);
    if (result == CUPTI_OK || !once_here())
        return;
    log_warn(
        "CUPTI (%s) cannot flush: %s (%d); GPU activity in buffers that are not full is missing",
        api.path, bind_error(&api, result), result);
    writer_note("CUPTI could not be flushed; GPU activity is missing");
}

/* Called with flush_lock and the lock. Releases flush_lock for good, and the lock during the flush.
 * Returns false if the lock cannot be taken again, because a call of CUPTI hangs; then CUPTI is
 * called no more. */
static bool flush_all(void)
{
    release_lock();
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

/* Leaves CUPTI as another client expects it: cprof's kinds off, none of its buffers in use. Called
 * with flush_lock and the lock; releases both. late: the other client has registered its buffers,
 * so a flush would deliver cprof's buffers to it; flush_lock is then not held. */
static void release_cupti(enum phase then, bool late)
{
    set_phase(PHASE_LEAVING);
    disarm();
    switch_last(&api, stays_on());
    if (!late && !flush_all())
        return;
    if (in_phase(PHASE_LEAVING)) /* else CUPTI ended meanwhile */
        leave_cupti(then);
    release_lock();
}

/* Another client begins. Releases the lock. late: as in release_cupti(). */
static void yield_cupti(enum phase then, bool late)
{
    /* the kinds are unwanted or off, so nothing will be missing */
    bool quiet = is_unwanted() || (!atomic_load(&armed) && !keeps_cupti());
    if (!quiet)
        warn_other(false);
    else if (then == PHASE_OTHER)
        then = PHASE_AWAY;
    if (late || lock_within(&flush_lock, WAIT_APP_MS)) {
        release_cupti(then, late);
        return;
    }
    set_phase(PHASE_OVER); /* a flush hangs, and any other call would */
    release_lock();
}

/* Reacts to another client's call. Called with the lock; releases it. */
static void react(void)
{
    if (in_phase(PHASE_LEAVING)) { /* another thread is reacting */
        release_lock();
        return;
    }
    enum phase then = (enum phase)atomic_exchange(&pending_phase, PHASE_NONE);
    bool late = atomic_exchange(&reacts_late, false);
    if (then != PHASE_NONE && in_phase(PHASE_READY)) {
        yield_cupti(then, late);
        return;
    }
    if (then == PHASE_DETACHED && in_phase(PHASE_OTHER))
        set_phase(then);
    release_lock();
}

/* If the lock is not free, the cprof thread reacts later. */
void gpu_other_client(enum gpu_other what, int kind)
{
    if (inside || atomic_load(&dead))
        return;
    int saved = errno, cancel = cancel_off();
    inside = true;
    note_other(what, kind);
    if (is_pending() && take_lock_settled())
        react();
    else if (is_pending() && what != GPU_OTHER_SUBSCRIBES)
        atomic_store(&reacts_late, true);
    inside = false;
    cancel_back(cancel);
    errno = saved;
}

/* ---- the cprof thread ---- */

/* Whether gpu_arm() was called for a step that the cprof thread has not reached: it must not
 * disable what was just enabled. */
static bool armed_just_now(void)
{
    uint64_t since = atomic_load(&armed_at);
    return since && (double)(clock_ticks() - since) < clock_ticks_per_second() * ARMED_MS / 1e3;
}

/* Marks all later records as unwanted. Called with the lock. */
static void set_unwanted(void)
{
    atomic_store(&unwanted_since, clock_monotonic_ns());
    if (armed_just_now()) { /* by a thread that saw the kinds enabled and went on */
        atomic_store(&unwanted_since, 0);
        return;
    }
    recorded_end();
    buffers_unread_from(clock_ticks());
}

static bool is_edge_overdue(void)
{
    uint64_t since = atomic_load(&unwanted_since);
    return since && clock_monotonic_ns() - since > NO_EDGE_MS * 1000000ull;
}

/* Nothing is to be recorded: later records are unwanted. Releases CUPTI once the kinds are off.
 * Called with the lock; releases it. */
static void become_idle(void)
{
    if (is_edge_overdue())
        disarm();
    else if (is_recording())
        set_unwanted();
    bool off = !atomic_load(&armed) && in_phase(PHASE_READY) && !keeps_cupti();
    if (off && pthread_mutex_trylock(&flush_lock) == 0) {
        buffers_unread_from(0);
        if (!flush_all())
            return;
        if (!atomic_load(&armed) && in_phase(PHASE_READY))
            leave_cupti(PHASE_AWAY);
    }
    release_lock();
}

/* If the recording of calls is disabled while a thread is in a CUDA call, CUPTI takes that thread
 * to be in the call for ever. It records no later call of the thread, and later kernels carry that
 * call's id (13.0 Update 1, on an H200). So the stepping thread, which is in no call, disables
 * it. */
void gpu_edge(bool at_once)
{
    if (!usable() || (!is_unwanted() && !(at_once && atomic_load(&armed))))
        return;
    inside = true;
    if (take_lock(0)) {
        if (is_unwanted() || at_once)
            disarm();
        atomic_store(&armed_at, 0);
        release_lock();
        writer_wake(); /* the cprof thread releases CUPTI */
    }
    inside = false;
}

/* Whether cprof's use of CUPTI fits `want`. `wanted` alone does not tell: gpu_arm() may have taken
 * CUPTI for a step that ended before this thread noticed. */
static bool is_met(enum gpu_want want)
{
    if (want != GPU_WANT_NOTHING || wanted != GPU_WANT_NOTHING)
        return want == wanted;
    if (atomic_load_explicit(&armed, memory_order_relaxed))
        return is_unwanted() && !is_edge_overdue();
    return !in_phase(PHASE_READY) || keeps_cupti();
}

static void follow(enum gpu_want want)
{
    if (atomic_load_explicit(&armed, memory_order_relaxed))
        collect_clock();
    if (!in_phase(PHASE_OTHER) && want != GPU_WANT_NOTHING)
        buffers_refill();
    if (is_pending() && take_lock(WAIT_CPROF_MS))
        react();
    if (is_met(want) || (want == GPU_WANT_NOTHING && armed_just_now()) || !take_lock(WAIT_CPROF_MS))
        return;
    buffers_small(want == GPU_WANT_SOON);
    wanted = want;
    if (want != GPU_WANT_NOTHING) {
        atomic_store(&armed_at, 0);
        release_lock();
        return;
    }
    if (is_pending())
        react();
    else
        become_idle();
    buffers_trim();
}

/* Sequentially consistent: either source_stop() sees the thread at work, or the thread sees that it
 * must stop. */
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
    follow(want);
    int again_ms = is_met(want) ? -1 : RETRY_MS;
    if (is_unwanted())
        again_ms = LOOK_MS; /* to see whether an edge has come */
    end_work();
    return again_ms;
}

static bool may_flush(enum gpu_flush how)
{
    uint64_t now = clock_monotonic_ns();
    if (how == GPU_FLUSH_NONE || !in_phase(PHASE_READY))
        return false;
    if (is_first_13_0() && how == GPU_FLUSH_PLAIN &&
        (wanted != GPU_WANT_SOON || now - flushed_ns < FIRST_13_0_FLUSH_NS))
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

/* Never calls cuptiFinalize(). If a flush is still in progress, CUPTI hangs: then calls nothing. */
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
        release_lock();
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

static bool fork_flush, fork_lock; /* held by gpu_fork_begin(); forking thread */

void gpu_fork_begin(void)
{
    nvml_hold();
    if (inside || atomic_load(&dead) || in_phase(PHASE_NONE))
        return;
    fork_flush = lock_within(&flush_lock, WAIT_FORK_MS);
    fork_lock = fork_flush && take_lock(WAIT_FORK_MS);
}

void gpu_fork_end(void)
{
    nvml_release();
    if (fork_lock)
        release_lock();
    if (fork_flush)
        pthread_mutex_unlock(&flush_lock);
    fork_lock = fork_flush = false;
}

void gpu_abandon(void)
{
    atomic_store(&dead, true);
    callback_abandon();
    telemetry_abandon();
}
