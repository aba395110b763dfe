/* SPDX-License-Identifier: Apache-2.0 */
/* A pass of the cprof thread: reads the rings' fill levels, takes the edges posted so far, moves
 * records from rings to windows, flushes, and finishes windows that are complete. */
#include "writer/passes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/window/window.h"
#include "writer/record/record.h"
#include "writer/flight.h"
#include "writer/gpu_side.h"
#include "writer/import/import.h"
#include "writer/metrics.h"
#include "writer/base/base.h"

#define FLUSH_MS 250 /* kill -9 loses at most so much */
/* Flushes earlier at this size. Plain text is copied while it is in the core's cache; a gzip member
 * costs more than that saves. */
#define FLUSH_BYTES  (1u << 20)
#define FLUSH_GZIP   (4u << 20)
#define HELD_FLUSHES 32   /* flushes per held_bytes, of a held window */
#define HELD_IDLE    4    /* of an idle held window, only each fourth flush is done */
#define HELD_MS      1000 /* a held window gets a file after this time */
#define FLIGHT_MS    100  /* between passes while only the flight recorder or metrics want one */
#define GRACE_MS     500  /* for spans that are open at the window's end */
#define GATES_IDLE                                                                                 \
    (GATE_SKIPPED | UINT32_MAX << GATE_BITS) /* bits of writer_gate that need no passes */

/* Shared with application threads. */
/* edges taken when no closed window was left; cprof thread writes, any thread reads */
static _Atomic uint64_t edges_saved;
static _Atomic bool failed; /* writing has failed; cprof thread writes and reads */
/* writer_want_skipped() was called; any thread sets, cprof thread reads */
static _Atomic bool skipped_wanted;

/* The cprof thread's own. */
static const struct writer_options *options;
static struct window_shared shared = {.user_json = "", .notes_json = ""};
static struct window *windows; /* oldest first; all but the last are closed */
static struct window *current; /* the open window, or NULL */
/* markers of warmup steps and of steps to skip, and markers of a held window that a listener may be
 * told */
static struct hold hold;
static struct losses hold_losses; /* losses at the start of the hold */
static uint64_t serial, last_flush_ns, flush_bytes;
static struct train_time time_taken; /* of the last edge taken */
static uint64_t step_start;          /* ticks of the edge that began the current step */
static uint64_t passes;              /* begun so far */
static uint64_t thread_started_ns;
static uint64_t looked_at; /* ticks before this pass read the rings' fill levels */
static struct gpu_side gpu;
/* ticks of the edge that began the current steps to skip, or warmup steps; 0: none */
static uint64_t skip_from, warm_from;
static struct losses skip_losses; /* losses at skip_from */
/* ticks: start of the window that was open when writing failed; its records in the rings are
 * lost */
static uint64_t unwritten_from = UINT64_MAX;

/* ---- failing ---- */

void passes_fail(void)
{
    atomic_store(&failed, true);
    edges_stop();
}

bool writer_saved(uint64_t mark)
{
    return run_state_now() != WRITER_RUNS || atomic_load(&edges_saved) >= mark;
}

/* ---- files ---- */

static bool flush_window(struct window *w)
{
    bool done = save_flush(w, &shared);
    if (!done)
        passes_fail();
    return done;
}

/* Flushes a window that has grown, so that a burst does not fill the memory. False: not needed, or
 * failed. */
static bool flush_long(struct window *w)
{
    if (w->unwanted)
        buf_reset(&w->body);
    uint64_t held_most = options->held_bytes / HELD_FLUSHES;
    uint64_t most = w->held && held_most < flush_bytes ? held_most : flush_bytes;
    return w->body.len > most && flush_window(w);
}

/* ---- windows ---- */

/* The oldest window whose losses count; NULL: none. */
static struct window *oldest_wanted(void)
{
    struct window *w = windows;
    while (w && w->unwanted)
        w = w->next;
    return w;
}

/* Spans that ended without room after a window are a loss of the oldest unfinished window. Without
 * one they are not counted: the file of their own window has them as unfinished. */
static void take_refused_late(struct window *w)
{
    static uint64_t taken;
    uint64_t n = thread_log_refused_late();
    if (w)
        w->lost.n[LOSS_RING_FULL] += n - taken;
    taken = n;
}

/* held: the window may be discarded. */
static struct window *open_window(uint64_t from, uint64_t start, int64_t first_step,
                                  const struct losses *before, bool held)
{
    if (!windows) {
        clock_settle();
        take_refused_late(NULL);
    }
    struct window *w = window_open(++serial, from, start, first_step, before);
    if (!w) {
        report_lost_more(1); /* the whole window */
        return NULL;
    }
    struct window **at = &windows;
    while (*at)
        at = &(*at)->next;
    *at = w;
    w->held = w->markless = held;
    if (!held)
        observers_window_open(w, passes);
    return w;
}

/* Writes a record, unless it is a hooked call: that waits for CUPTI's record of it, which has
 * more. */
static void put_record(struct window *w, const struct record_owner *owner, const struct record *r)
{
    bool left_open = w->settled && window_left_open(&w->open_ids, r->id);
    if (record_was_span(r) && !left_open && gpu_side_span(&gpu, w, owner, r))
        w->records++;
    else
        window_add(w, &shared, owner, r);
}

/* Drops the held markers, but not those that asked for steps to skip. */
static void drop_unasked(void)
{
    if (!atomic_load(&skipped_wanted))
        hold_drop(&hold);
    else if (hold.on)
        hold_keep_skipped(&hold);
}

static void begin_hold(uint64_t from, const struct losses *before)
{
    hold_begin(&hold, from, options->hold_bytes);
    hold_losses = *before;
}

/* In the middle of steps to skip, markers may begin to ask for them, or a listener may come. */
static void hold_skipped(void)
{
    bool told_later = current && current->held && listening();
    if (skip_from != 0 && !hold.on && (told_later || atomic_load(&skipped_wanted)))
        begin_hold(skip_from, &skip_losses);
}

/* Markers without room in the hold are a loss of the window that takes the rest. Not counted when
 * the hold is dropped. */
static void count_refused(struct window *w, uint64_t n)
{
    w->lost.n[LOSS_HOLD_FULL] += n;
    if (n)
        writer_note("more markers came before a window than are kept; the rest is not in its file");
}

static void replay_marker(const struct record_owner *owner, const struct record *r, void *w)
{
    window_add(w, &shared, owner, r);
    flush_long(w);
}

static void close_current(const struct step_edge *edge)
{
    window_close(current, edge, passes);
    if (options->continuous)
        current->partial = false; /* no schedule tells how long it should have been */
    current = NULL;
}

/* Opens the next file of a continuous recording when one is full. Spans that began before now still
 * go into the old file. */
static void roll_over(void)
{
    if (!options->continuous || !current || !current->full)
        return;
    uint64_t now = clock_ticks();
    int64_t step = current->last_step + 1;
    struct step_edge edge = {.ticks = now, .time = time_taken};
    loss_sum(&edge.losses);
    close_current(&edge);
    current = open_window(now, now, step, &edge.losses, false);
}

/* Opens the window for what comes before the first step mark. It is discarded at the first mark. */
static void open_held(const struct step_edge *edge)
{
    if (!backlog_takes_one(windows, edge, false)) {
        backlog_count(oldest_wanted(), 1);
        return;
    }
    report_hold();
    current = open_window(edge->ticks, edge->ticks, edge->step, &edge->losses, true);
}

static void replay_held(const struct record_owner *owner, const struct record *r, void *unused)
{
    (void)unused;
    observers_replay(owner, r);
}

/* The program, or a region of it, ends without a step mark: the held window becomes its trace. */
static void keep_held(bool region)
{
    current->held = false;
    current->region = region;
    observers_window_open(current, passes);
    hold_each(&hold, replay_held, NULL);
    if (current->lost.n[LOSS_HOLD_FULL])
        writer_note("more came before the first step mark than is kept; the oldest was dropped");
}

/* A step was marked: removes the held file at once. The window still takes the records of its
 * time. */
static void discard_held(void)
{
    current->held = false;
    window_discard(current);
    report_discard();
}

/* What found no room in the held window is no loss of the next one, which takes only its
 * markers. */
static void forget_losses(const struct step_edge *edge)
{
    uint64_t lost = edge->losses.n[LOSS_RING_FULL];
    if (hold.on && lost != current->before.n[LOSS_RING_FULL])
        writer_note("events before the first step mark found no room; markers of warmup steps that "
                    "were among them are missing");
    hold_losses.n[LOSS_RING_FULL] = skip_losses.n[LOSS_RING_FULL] = lost;
}

/* Ends the held window, unless the same step continues. */
static void end_held(const struct step_edge *edge)
{
    bool over = edge->kind == EDGE_STOP || edge->kind == EDGE_LAST;
    if (!over && edge->keep && edge->kind != EDGE_START)
        return;
    bool wanted = over && edge->keep &&
                  !(edge->unless_ranks && options->ranks_wrote && options->ranks_wrote());
    struct window *w = current;
    if (wanted) {
        keep_held(edge->kind == EDGE_STOP);
    } else {
        discard_held();
        forget_losses(edge);
    }
    close_current(edge);
    w->partial = false;
    w->unwanted = !wanted;
}

static void begin_step(const struct step_edge *edge)
{
    if (edge->begun >= ACTION_ACTIVE && !current &&
        backlog_takes_one(windows, edge, options->continuous)) {
        current = open_window(hold.on ? hold.from : edge->ticks, edge->ticks, edge->step,
                              hold.on ? &hold_losses : &edge->losses, false);
        if (current)
            current->warm_from = warm_from ? warm_from : edge->ticks;
        if (current && hold.on) {
            count_refused(current, hold.refused);
            hold_each(&hold, replay_marker, current);
        }
    }
    time_taken = edge->time;
    bool warmup = edge->begun == ACTION_WARMUP; /* markers of warmup steps are kept */
    bool skip = edge->begun == ACTION_SKIP;
    if (edge->keep && !current)
        open_held(edge);
    if (warmup && !hold.on)
        begin_hold(edge->ticks, &edge->losses);
    else if (skip && !edge->keep)
        drop_unasked();
    else if (!skip && !warmup)
        hold_drop(&hold);
    if (skip && !skip_from)
        skip_losses = edge->losses;
    skip_from = !skip ? 0 : skip_from ? skip_from : edge->ticks;
    warm_from = !warmup ? 0 : warm_from ? warm_from : edge->ticks;
    hold_skipped();
    if (edge->kind == EDGE_STEP || !current || current->start == edge->ticks)
        step_start = edge->ticks;
    gpu_side_step(&gpu, edge->begun, current && current->held);
}

static void take_edge(const struct step_edge *edge)
{
    bool recorded = edge->ended >= ACTION_ACTIVE;
    if (edge->kind == EDGE_STEP && current && recorded)
        window_add_step(current, &shared, edge->step - 1, step_start, edge->ticks, edge->tid);
    else if (recorded && backlog_left_out() &&
             (edge->kind == EDGE_STEP || edge->begun < ACTION_ACTIVE))
        backlog_count(oldest_wanted(), 1); /* at any other edge the step continues */
    backlog_count_losses(oldest_wanted(), edge);
    if (current && current->held)
        end_held(edge);
    else if (current && window_ends(current, edge))
        close_current(edge);
    if (edge->kind == EDGE_START)
        hold_drop(&hold);
    if (edge->kind == EDGE_STOP || edge->kind == EDGE_LAST) {
        hold_drop(&hold);
        skip_from = warm_from = 0;
        gpu_side_step(&gpu, ACTION_SKIP, false);
        return;
    }
    if (edge->ended == ACTION_SKIP && !edge->keep)
        drop_unasked(); /* step 0 was held for a program without marks; this is a mark */
    begin_step(edge);
}

static void take_posted(const struct step_edge *edge)
{
    observers_edge(edge, passes);
    flight_edge(edge);
    metrics_edge(edge);
    if (!atomic_load(&failed) && !edge_changes_nothing(edge))
        take_edge(edge);
}

static void take_edges(void)
{
    edges_take(take_posted);
}

/* ---- records ---- */

static struct window *window_of(uint64_t ticks)
{
    struct window *unwanted = NULL; /* another window may want the markers of its time */
    if (current && ticks >= current->from)
        return current;
    for (struct window *w = windows; w; w = w->next) {
        bool of_its_time = ticks >= w->from && ticks < w->end;
        if (of_its_time && !w->unwanted)
            return w;
        if (of_its_time)
            unwanted = w;
    }
    return unwanted;
}

/* The window for a GPU record. Not for warmup steps, from which a window takes only markers. */
static struct window *window_of_gpu(uint64_t ticks)
{
    struct window *w = window_of(ticks);
    return w && ticks >= w->start ? w : NULL;
}

static bool hold_wants(const struct record *r)
{
    if (!hold.on || r->start < hold.from || !(r->flags & REC_MARKER))
        return false;
    if (warm_from && r->start >= warm_from)
        return !(r->flags & REC_TASK);
    return (r->flags & REC_SKIPPED) || (current && current->held && listening());
}

static void take_record(struct thread_log *log, const struct record *r)
{
    struct window *w = window_of(r->start);
    struct record_owner owner = thread_log_owner(log);
    if (record_was_span(r))
        log->last_span = r->id;
    observers_record(&owner, r);
    flight_record(&owner, r);
    if ((!w || w->held || w->unwanted) && hold_wants(r))
        hold_put(&hold, &owner, r);
    if (r->kind == REC_NODE) {
        gpu_side_node(&gpu, &owner, r);
    } else if (w && !w->unwanted) {
        if (window_takes(w, r->start, r->flags))
            put_record(w, &owner, r);
        if (w->markless && !w->held) /* arrived at the last moment */
            observers_replay(&owner, r);
        if (flush_long(w))
            roll_over();
    } else if (!w && finished_missed_span(r->start, r->id)) {
        ++*(current ? &current->lost.n[LOSS_LATE] : &report.lost); /* its own file is finished */
    }
}

/* ---- passes ---- */

static void look_at_rings(void)
{
    looked_at = clock_ticks();
    thread_log_look();
}

static void drain_rings(void)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        const struct record *r;
        while ((r = ring_peek(&log->ring, log->until))) {
            if (!atomic_load_explicit(&failed, memory_order_relaxed))
                take_record(log, r);
            else if (r->start >= unwritten_from && r->kind != REC_NODE)
                report.lost++;
            ring_take(&log->ring, r);
        }
        if (log->ended) {
            log->ended = false;
            thread_names_ended(atomic_load_explicit(&log->tid, memory_order_relaxed));
            report_thread(log);
            thread_log_recycle(log);
        }
    }
    if (!hold.on) /* else rows of ended threads are still to be written */
        thread_names_forget();
}

/* ---- the GPU side ---- */

static struct window *window_numbered(uint64_t number)
{
    struct window *w = windows;
    while (w && w->serial != number)
        w = w->next;
    return w;
}

static void flush_and_drain(void)
{
    static unsigned calls;
    for (struct window *w = windows; w; w = w->next)
        flush_long(w);
    if (++calls % 256 == 0 && !edges_being_taken() && thread_log_fills()) {
        look_at_rings();
        stacks_look(false);
        take_edges();
        drain_rings();
    }
}

static void count_in_window(enum loss cause, uint64_t n)
{
    struct window *w = oldest_wanted();
    if (w)
        w->lost.n[cause] += n;
    else if (cause == LOSS_LATE)
        report.lost += n;
}

static void start_gpu(void)
{
    gpu = (struct gpu_side){.source = options->gpu,
                            .states = options->states,
                            .in = {window_of_gpu, window_numbered, flush_and_drain, &shared},
                            .catch_up = take_edges,
                            .count_loss = count_in_window,
                            .calls_since = UINT64_MAX};
}

/* True when a closed window waits. */
static bool closed_waits(void)
{
    return windows && windows->end != UINT64_MAX;
}

/* Moves everything recorded so far to where it belongs. */
static void collect(void)
{
    look_at_rings();
    observers_begin(); /* before marks are told that were made since a listener came */
    gpu_side_look(&gpu, closed_waits());
    hold_skipped();
    stacks_look(run_state_now() == WRITER_STOPPING);
    take_edges();
    drain_rings();
    observers_drained(passes);
    gpu_side_collect(&gpu, closed_waits());
}

/* Ends the window when recording was turned off in its middle, or when the process ends without a
 * last edge. */
static void end_stopped(bool stopping)
{
    struct step_edge edge = {.ticks = clock_ticks(),
                             .kind = EDGE_LAST,
                             .time = time_taken,
                             .keep = stopping,
                             .unless_ranks = true};
    bool paused = edges_paused() && edges_taken_so_far() == edges_posted_so_far();
    struct window *w = current;
    if (current && (stopping || paused)) {
        loss_sum(&edge.losses);
        if (w->held)
            end_held(&edge);
        else
            close_current(&edge);
        w->partial |= paused; /* the program goes on */
    }
    if (paused && !stopping && !writer_is_off()) {
        take_edge(&edge);
        edges_caught_up();
    }
}

/* An empty window leaves no file. An open span counts as content. */
static bool has_content(const struct window *w)
{
    return !w->unwanted && (w->events || w->sink || window_has_open_spans(w));
}

static double ms_since(uint64_t ticks)
{
    return (double)(clock_ticks() - ticks) * 1e3 / clock_ticks_per_second();
}

/* A held window gets no file for a second, because it is mostly discarded soon. An idle one, as of
 * a server, is then flushed once a second, so that `cprof recover` sees it grow. */
static bool is_to_flush(const struct window *w, bool force)
{
    static unsigned times;
    bool idle = w->sink && w->events == w->flushed && ++times % HELD_IDLE != 0;
    return has_content(w) && (!w->held || force || (!idle && ms_since(w->from) > HELD_MS));
}

static void add_knot(void)
{
    if (clock_knot() && once_here())
        writer_note(
            "the wall clock was set during the recording: times continue as if it had not been");
}

static void flush_windows(bool force)
{
    uint64_t now = clock_monotonic_ns();
    bool young = now - thread_started_ns < 1000000000u;
    bool due = force || now - last_flush_ns >= FLUSH_MS * 1000000u;
    if (young || due)
        add_knot();
    if (!due)
        return;
    last_flush_ns = now;
    metadata_collect(&shared.user_json, &shared.notes_json);
    for (struct window *w = windows; w && !atomic_load(&failed); w = w->next) {
        if (is_to_flush(w, force))
            flush_window(w);
    }
    flight_flush(force);
    metrics_pass();
    roll_over();
}

static void finish_window(struct window *w)
{
    bool told = !w->unwanted || !w->markless; /* the listener was told that it opened */
    if (told)
        observers_window_close(w);
    if (w->unwanted) {
        window_discard(w);
    } else if (w->events || w->sink || w->unfinished) {
        metadata_collect(&shared.user_json, &shared.notes_json);
        bool saved = save_finish(w, &shared);
        metrics_window(w, saved);
        if (!saved)
            passes_fail();
        finished_add(w->start, w->end, &w->open_ids);
    } else {
        save_none(w);
    }
    window_free(w);
}

/* A closed window is complete when each ring was drained once after its end was known, and its
 * spans are closed. After GRACE_MS, open spans are written as unfinished. */
static bool is_complete(const struct window *w, bool stopping)
{
    if (w->unwanted)
        return true;
    if (w->end == UINT64_MAX || w->closed_pass == passes || !gpu_side_complete(&gpu, w, stopping) ||
        import_holds(windows, w))
        return false;
    if (stopping || !window_has_open_spans(w))
        return true;
    return ms_since(w->closed_at) > GRACE_MS;
}

/* Removes the window from the list and finishes its file. */
static void finish_one(struct window **link)
{
    struct window *w = *link;
    if (w->unwanted) {
        join_forget(w);
    } else {
        window_settle(w, &shared);
        collect(); /* what closed just before */
        take_refused_late(w);
        join_settle(&gpu.in, w);
    }
    join_finished(w->end);
    *link = w->next;
    finish_window(w);
}

/* In any order: a kernel that runs on for long holds up only its own window. */
static void finish_windows(bool stopping)
{
    struct window **link = &windows;
    while (*link && !atomic_load(&failed)) {
        if (is_complete(*link, stopping))
            finish_one(link);
        else
            link = &(*link)->next;
    }
    if (!windows)
        gpu_side_idle(&gpu);
}

/* After a failure nothing more is written; files on disk stay. */
static void drop_windows(void)
{
    while (windows) {
        struct window *w = windows;
        windows = w->next;
        if (w == current)
            unwritten_from = w->start;
        save_drop(w);
        window_free(w);
    }
    current = NULL;
    hold_drop(&hold);
    import_drop();
}

static void merge_foreign(bool stopping)
{
    if (atomic_load(&failed))
        return;
    import_pass(windows, looked_at, &shared, stopping);
    for (struct window *w = windows; w; w = w->next)
        flush_long(w);
    roll_over();
}

void passes_do(bool stopping)
{
    uint32_t urgent = flush_now_asked();
    bool force = urgent != flush_now_done();
    passes++;
    collect();
    for (struct window *w = windows; w; w = w->next)
        window_taken_until(w, &shared, looked_at);
    backlog_count(oldest_wanted(), edges_missed());
    end_stopped(stopping);
    merge_foreign(stopping);
    flush_windows(force);
    if (force)
        flush_now_set_done(urgent);
    finish_windows(stopping);
    if (atomic_load(&failed))
        drop_windows();
    if (!closed_waits())
        atomic_store(&edges_saved, edges_taken_so_far());
}

static int each_pass(bool stopping)
{
    return options->each_pass ? options->each_pass(stopping) : -1;
}

/* The shorter of two pauses; -1 is endless. */
static int shorter_pause(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

int passes_pause_ms(void)
{
    int ms = shorter_pause(each_pass(false), gpu_side_pause_ms(&gpu));
    bool busy = windows || hold.on || (atomic_load(&writer_gate) & ~GATES_IDLE) || listening() ||
                atomic_load(&skipped_wanted) || import_busy();
    return shorter_pause(ms, busy ? POLL_MS : flight_runs() || metrics_run() ? FLIGHT_MS : -1);
}

static void give_up_waiting(void)
{
    gpu_side_give_up(&gpu);
    import_give_up();
}

/* At exit. The second pass drains what came during the first; then CUPTI is waited for. With a
 * fifth of the time left, files are written as they are. */
void passes_finish(void)
{
    uint64_t start = clock_monotonic_ns();
    uint64_t most = (uint64_t)options->exit_deadline_ms * 800000u;
    passes_do(true);
    while (windows) {
        if (clock_monotonic_ns() - start > most)
            give_up_waiting();
        passes_do(true);
        if (windows)
            run_state_wait(WRITER_STOPPING, 2);
    }
    import_give_up();
    flight_end();
    metrics_end();
}

void passes_start(const struct writer_options *given)
{
    shared.options = options = given;
    flight_start(&shared);
    metrics_start(options);
    flush_bytes = options->gzip ? FLUSH_GZIP : FLUSH_BYTES;
    if (flush_bytes > options->max_trace_bytes / 4)
        flush_bytes = options->max_trace_bytes / 4;
}

/* Measures the ns that recording a span costs, on the calling thread's empty ring. cprof thread,
 * before it records anything else. */
static double measure_record(void)
{
    struct thread_log *log = thread_log_get();
    if (!log)
        return 0;
    enum { TRIES = 20, SPANS = 100 }; /* the smallest ring holds 512 */
    uint32_t name = numbered_name("aten::measure", 13);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) { /* most tries are not preempted */
        uint64_t before = clock_monotonic_ns();
        for (int k = 0; k < SPANS; k++) {
            span_open(log, &best, CAT_CPU_OP, "aten::measure", name);
            span_close(log, &best);
        }
        uint64_t took = clock_monotonic_ns() - before;
        best = took < best ? took : best;
        atomic_store(&log->ring.tail, ring_head(&log->ring));
    }
    atomic_store(&log->records, 0);
    return (double)best / SPANS;
}

void passes_begin(void)
{
    thread_started_ns = clock_monotonic_ns();
    shared.record_ns = measure_record();
    run_state_wait(WRITER_RUNS, 1); /* 1 ms: the clock's rate is measured up to the first knot */
    add_knot();
    if (!(shared.flows = calloc(1, sizeof *shared.flows)))
        log_warn("no memory: the arrows from forward to backward operators are missing");
    shared.pid = window_pid((uint32_t)getpid());
    start_gpu();
}

bool passes_want_skipped(void)
{
    return !atomic_exchange(&skipped_wanted, true);
}
