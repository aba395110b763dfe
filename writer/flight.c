/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder's window, its file, and the moments at which it is saved. cprof thread. */
#include "writer/flight.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/base/base.h"
#include "writer/file/file.h"
#include "writer/record/record.h"
#include "writer/sums/sums.h"
#include "writer/thread_states.h"
#include "writer/window/window.h"

#define FLUSH_BYTES  (1u << 20)
#define IDLE_FLUSHES 4 /* without new events, only each fourth flush is done */
#define SAVES_MOST   5 /* saved recordings of a rank that are kept */
#define NAMES_TRIED  1000
#define LOST_MOST    10         /* flushes without folder or file until the recorder gives up */
#define STEPS_SEEN   63         /* the last steps, whose median counts */
#define STEPS_LEAST  10         /* with fewer, no step is slow */
#define SLOW_NS      100000000u /* what a slow step takes more than the median, at least */
#define HOUR_NS      3600000000000u
#define SECOND_NS    1000000000u
#define SAVES_HOUR   4         /* for each cause, without being asked */
#define ERRORS_MOST  2         /* of transfers, in a process */
#define IDLE_SHARE   50        /* below a fiftieth of a processor, a process does nothing */
#define IDLE_BYTES   (1 << 20) /* what it reads and writes meanwhile, at most */

static struct window_shared *shared;
static const struct flight_options *options; /* NULL: there is no recorder, or it is off for good */
static struct window *flight;                /* NULL: not begun */
static struct {
    int64_t step;
    uint64_t ticks; /* its start */
} now;

/* The durations (ns) of the last steps. */
static struct {
    uint64_t ns[STEPS_SEEN];
    unsigned n;
} seen;

/* Why the process ends. Any thread sets, the cprof thread reads. */
static const char *_Atomic end_what;
static _Atomic int end_number;
/* The first call that reported an error since the last save; NULL: none. Any thread. */
static const char *_Atomic failed_call;
static _Atomic int failed_code;
static _Atomic uint64_t failed_ticks;
static char wanted[128]; /* why to save once the rings are drained; "": not */
static enum flight_cause wanted_cause;
static uint64_t saves[FLIGHT_CAUSES];
static struct buf threads; /* members of the trace's `flight` object: what the threads did */
static bool threads_new;   /* the file does not have them yet */

static __attribute__((format(printf, 2, 3))) void want(enum flight_cause cause, const char *format,
                                                       ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    wanted_cause = cause;
}

const char *flight_cause_name(enum flight_cause cause)
{
    static const char *const names[] = {"slow_step",      "hang", "out_of_memory",
                                        "transfer_error", "end",  "asked"};
    return names[cause];
}

uint64_t flight_saves(enum flight_cause cause)
{
    return saves[cause];
}

void writer_ends_by(const char *what, int number)
{
    const char *none = NULL;
    if (atomic_load(&end_what))
        return;
    atomic_store(&end_number, number);
    atomic_compare_exchange_strong(&end_what, &none, what);
}

void writer_transfer_failed(const char *call, int code)
{
    int saved = errno;
    if (atomic_load(&failed_call))
        return;
    atomic_store(&failed_code, code);
    atomic_store(&failed_ticks, clock_ticks());
    atomic_store(&failed_call, call);
    writer_wake();
    errno = saved;
}

void flight_start(struct window_shared *given)
{
    shared = given;
    options = given->options->flight.what ? &given->options->flight : NULL;
    if (options)
        edges_want_all();
}

static void forget_threads(void);

/* The recorder ends for good; recording goes on. */
static void give_up(const char *why)
{
    log_warn("the flight recorder is off: %s%s%s; the program and its traces go on",
             flight ? flight->part_path : "", flight && flight->part_path[0] ? ": " : "", why);
    options = NULL;
    forget_threads();
    window_free(flight);
    flight = NULL;
}

/* Tells what the kinds cost that listen in all steps. */
static void tell_cost(void)
{
    unsigned what = options->what;
    if (what & (FLIGHT_OPERATORS | FLIGHT_CALLS | FLIGHT_KERNELS))
        log_info(
            "the flight recorder keeps%s%s%s in all steps: each step costs what a recorded one "
            "does, here %.0f ns for each event and what torch and CUPTI take",
            what & FLIGHT_OPERATORS ? " operators" : "", what & FLIGHT_CALLS ? " calls" : "",
            what & FLIGHT_KERNELS ? " kernels" : "", shared->record_ns);
}

static void begin(const struct step_edge *edge)
{
    struct losses before;
    loss_sum(&before);
    flight = window_open(0, edge->ticks, edge->ticks, edge->step, &before);
    if (!flight) {
        options = NULL;
        return;
    }
    tell_cost();
    flight->flight = flight->held = true;
    flight->flops_tried = flight->summary_tried = true; /* neither is wanted */
    flight->half.ticks = edge->ticks;
    flight->half.step = edge->step;
    now.step = edge->step;
    now.ticks = edge->ticks;
}

bool flight_runs(void)
{
    return flight;
}

/* ---- the file ---- */

/* A path in the folder of the recorder. False: the traces have none. */
static bool trace_folder(char path[PATH_MAX], int64_t *rank)
{
    struct trace_identity id = {.rank = 0};
    struct train_time time = {.batch = flight->first_step};
    if (shared->options->identity)
        shared->options->identity(&id);
    *rank = id.rank;
    return shared->options->trace_path(&time, path, PATH_MAX);
}

/* A killed run of this rank has left its file under this name: it gets another one. */
static void move_old_file(void)
{
    char path[PATH_MAX], taken[PATH_MAX], other[PATH_MAX];
    struct stat st;
    int64_t rank;
    if (!trace_folder(path, &rank) || !path_flight_name(path, rank, 1, taken, sizeof taken) ||
        !owner_is_trusted_file(taken, &st) || !is_of_earlier_run(&st, shared->options))
        return;
    for (int n = 2; n < NAMES_TRIED; n++) {
        if (!path_flight_name(path, rank, n, other, sizeof other))
            return;
        if (link(taken, other) == 0) {
            unlink(taken);
            log_info("%s: left by a run that was killed; it is %s now", taken, other);
            return;
        }
    }
}

/* Writes what has come. Without its folder or file, the next flush begins a new file: whoever
 * removes the folder may still be at it. */
static void flush(void)
{
    static unsigned lost; /* flushes without folder or file, one after the other */
    threads_new = false;
    if (!flight->sink)
        move_old_file();
    int error = window_flush(flight, shared);
    bool gone = error == ENOENT || error == ESTALE;
    lost = gone ? lost + 1 : 0;
    if (gone && lost <= LOST_MOST) {
        sink_free(flight->sink);
        flight->sink = NULL;
        flight->half.bytes = flight->half.events = flight->flushed = 0;
        return;
    }
    if (error)
        give_up(strerror(error));
    else if (sink_disk_low(flight->part_path))
        give_up("the file system is nearly full");
}

/* ---- what the threads do ---- */

static void take_threads(void)
{
    buf_reset(&threads);
    buf_puts(&threads, ", \"threads_at\": ");
    json_us(&threads, clock_wall_ns(clock_ticks()) - flight->base_ns);
    buf_puts(&threads, ", \"threads\": ");
    thread_states_put(shared->options, &threads);
    flight->threads = threads.failed ? NULL : &threads;
    threads_new = true;
}

static void forget_threads(void)
{
    buf_free(&threads);
    if (flight)
        flight->threads = NULL;
}

/* ---- saving ---- */

static int by_time(const void *a, const void *b)
{
    struct stat one, other;
    if (lstat(*(char *const *)a, &one) != 0 || lstat(*(char *const *)b, &other) != 0)
        return 0;
    int64_t seconds = (int64_t)one.st_mtim.tv_sec - other.st_mtim.tv_sec;
    int64_t ns = seconds ? seconds : (int64_t)one.st_mtim.tv_nsec - other.st_mtim.tv_nsec;
    return ns < 0 ? -1 : ns > 0;
}

/* Removes this rank's oldest saved recordings, so that one more may come. */
static void make_room(const char *path, int64_t rank)
{
    char saved[PATH_MAX], pattern[PATH_MAX];
    glob_t found;
    if (!path_flight_save(path, rank, "\1", 1, saved, sizeof saved) ||
        !path_quote(saved, '\1', pattern, sizeof pattern) || !find_files(pattern, &found))
        return;
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_time);
    for (size_t i = 0; i + SAVES_MOST <= found.gl_pathc; i++) {
        struct stat st;
        if (owner_is_trusted_file(found.gl_pathv[i], &st))
            unlink(found.gl_pathv[i]);
    }
    globfree(&found);
}

/* Saves what the recorder holds as a trace of its own, `to`, and says why. False: it cannot. */
static bool save(enum flight_cause cause, const char *reason, char to[PATH_MAX])
{
    char path[PATH_MAX], step[24];
    int64_t rank;
    flush();
    if (flight && !flight->sink)
        flush(); /* the file was gone */
    if (flight && !flight->sink)
        log_warn("cannot save the flight recorder (%s): its folder is gone", reason);
    if (!flight || !flight->sink || !trace_folder(path, &rank))
        return false;
    make_room(path, rank);
    snprintf(step, sizeof step, "%lld", (long long)now.step);
    flight->reason = reason;
    int error = EEXIST;
    for (int n = 1; error == EEXIST && n < NAMES_TRIED; n++)
        error = path_flight_save(path, rank, step, n, to, PATH_MAX)
                    ? window_copy(flight, shared, to)
                    : ENAMETOOLONG;
    flight->reason = NULL;
    if (error)
        log_warn("%s: cannot save the flight recorder (%s): %s", to, reason, strerror(error));
    else
        log_info("flight recorder saved (%s): %s", reason, to);
    saves[cause] += !error;
    return !error;
}

bool writer_flight_save(char *path, size_t size)
{
    char to[PATH_MAX];
    if (flight)
        take_threads();
    bool done = flight && save(FLIGHT_ASKED, "asked for", to);
    snprintf(path, size, "%s", done ? to : "");
    return done;
}

/* Saves without being asked, at most SAVES_HOUR times an hour for each cause: slow steps must not
 * use up what a hang needs. */
static void save_unasked(const char *reason)
{
    static struct {
        uint64_t times[SAVES_HOUR]; /* of the last ones */
        unsigned n;
        bool told;
    } of_cause[FLIGHT_CAUSES], *c;
    c = &of_cause[wanted_cause];
    uint64_t ns = clock_monotonic_ns(), *oldest = &c->times[c->n % SAVES_HOUR];
    if (*oldest && ns - *oldest < HOUR_NS) {
        if (!c->told)
            log_info("flight recorder not saved (%s): %d of this kind were within an hour", reason,
                     SAVES_HOUR);
        c->told = true;
        return;
    }
    char to[PATH_MAX];
    *oldest = ns;
    c->n++;
    save(wanted_cause, reason, to);
}

/* ---- slow steps and hangs ---- */

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* The median of the last steps in ns; 0: too few. */
static uint64_t median(void)
{
    uint64_t sorted[STEPS_SEEN];
    unsigned n = seen.n < STEPS_SEEN ? seen.n : STEPS_SEEN;
    if (n < STEPS_LEAST)
        return 0;
    memcpy(sorted, seen.ns, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

static uint64_t ns_between(uint64_t from, uint64_t to)
{
    return (uint64_t)(clock_wall_ns(to) - clock_wall_ns(from));
}

static int64_t told = -1; /* the last step that was told of as a hang */

static void look_at_step(int64_t step, uint64_t ns)
{
    uint64_t middle = median();
    if (options->slow > 0 && middle && step != told &&
        (double)ns > options->slow * (double)middle && ns - middle > SLOW_NS)
        want(FLIGHT_SLOW, "step %lld took %.2f s, %.1f times the median", (long long)step,
             (double)ns * 1e-9, (double)ns / (double)middle);
    seen.ns[seen.n++ % STEPS_SEEN] = ns;
}

/* What the process has done: its CPU time besides cprof's, the records it made, and its other
 * work. */
struct progress {
    int64_t cpu_ns; /* the clocks that it comes from are read one after the other */
    uint64_t records, at_ns;
    struct thread_work work;
};

static struct progress progress_now(void)
{
    struct timespec t;
    struct progress p = {.at_ns = clock_monotonic_ns()};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    p.cpu_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (int64_t)window_cpu_ns();
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        p.records += atomic_load_explicit(&log->records, memory_order_relaxed);
    p.work = thread_states_work();
    return p;
}

/* A transfer that has not ended. */
struct open_transfer {
    uint64_t start; /* ticks; 0: there is none */
    char name[48];
};

/* The one that has been open longest. */
static struct open_transfer oldest_transfer(void)
{
    struct open_transfer found = {0};
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint32_t depth = atomic_load_explicit(&log->depth, memory_order_acquire);
        for (uint32_t i = 0; i < depth && i < SPAN_DEPTH; i++) {
            struct open_copy span;
            if (!open_copy_take(log, i, &span))
                break;
            struct text text = name_text(span.name, span.text);
            bool transfer = span.category == CAT_COLLECTIVE || is_transfer_range(text.at, text.len);
            if (!transfer || (found.start && span.start >= found.start))
                continue;
            found.start = span.start;
            snprintf(found.name, sizeof found.name, "%.*s", (int)text.len, text.at);
        }
    }
    return found;
}

/* Whether children have worked that nobody waits for. They take their CPU time with them. */
static bool unwaited_children(const struct thread_work *before, const struct thread_work *after)
{
    return after->children_ns < before->children_ns ||
           (after->children != before->children && after->waited_faults == before->waited_faults);
}

/* Why a step that lasts is a hang, into `wanted`. False: the process works. */
static bool is_hang(const struct progress *before, const struct open_transfer *transfer,
                    uint64_t ns, uint64_t most)
{
    struct progress after = progress_now();
    int64_t of_children = (int64_t)(after.work.children_ns - before->work.children_ns);
    int64_t ran = after.cpu_ns - before->cpu_ns + of_children;
    uint64_t for_ns = after.at_ns - before->at_ns;
    /* A thread that ends takes its bytes with it, which is no sign of work. */
    bool still = seen.n && after.records == before->records &&
                 !unwaited_children(&before->work, &after.work) && for_ns > most / 3 &&
                 (int64_t)(after.work.io_bytes - before->work.io_bytes) < IDLE_BYTES &&
                 ran * IDLE_SHARE < (int64_t)for_ns;
    bool open = transfer->start && ns_between(transfer->start, clock_ticks()) >= most;
    if (open)
        want(FLIGHT_HANG, "%s has not ended for %.0f s, in step %lld", transfer->name,
             (double)most * 1e-9, (long long)now.step);
    else if (still)
        want(FLIGHT_HANG, "nothing runs and step %lld has not ended for %.0f s",
             (long long)now.step, (double)ns * 1e-9);
    return open || still;
}

/* Saves once where no step ends. While the process works, it looks again after the same time. */
static void look_for_hang(void)
{
    static struct {
        int64_t step;
        uint64_t due; /* ns of the step: the next look, half of the time after `before` */
        struct progress before;
        bool begun, looked, said;
    } look = {.step = -1};
    uint64_t ns = ns_between(now.ticks, clock_ticks()), most = options->hang_ns;
    double slow = options->slow * (double)median();
    most = (double)most < slow ? (uint64_t)slow : most;
    if (!options->hang_ns || told == now.step)
        return;
    if (look.step != now.step) {
        memset(&look, 0, sizeof look);
        look.step = now.step;
        look.due = most;
    }
    if (!look.begun && ns + most / 2 >= look.due) {
        look.before = progress_now();
        look.begun = true;
    }
    if (!look.looked && ns + SECOND_NS >= look.due) {
        thread_states_look(shared->options);
        look.looked = true;
    }
    if (ns < look.due)
        return;
    struct open_transfer transfer = oldest_transfer();
    if (transfer.start || seen.n)
        take_threads();
    if (is_hang(&look.before, &transfer, ns, most)) {
        told = now.step;
        return;
    }
    if (!look.said && seen.n)
        log_info("no step for %.0f s, still working (step %lld)", (double)ns * 1e-9,
                 (long long)now.step);
    look.said = true;
    look.begun = look.looked = false;
    /* once the transfer has lasted as long */
    uint64_t began = transfer.start ? ns - ns_between(transfer.start, clock_ticks()) : ns;
    look.due = began + most > ns + SECOND_NS ? began + most : ns + SECOND_NS;
}

static void look_for_error(void)
{
    static unsigned errors;
    const char *call = atomic_load(&failed_call);
    if (!call || errors == ERRORS_MOST)
        return; /* of many, further ones are not even noted */
    errors++;
    char what[64];
    int code = atomic_load(&failed_code);
    take_threads();
    snprintf(what, sizeof what, code < 0 ? "reported an error" : "returned %d", code);
    want(FLIGHT_TRANSFER, "%s %s %s step %lld", call, what,
         atomic_load(&failed_ticks) < now.ticks ? "before" : "in", (long long)now.step);
    atomic_store(&failed_call, NULL);
}

void flight_flush(bool force)
{
    static unsigned times;
    if (!flight)
        return;
    static unsigned known; /* steps */
    if (known != seen.n)
        dso_table_look(); /* for the threads' native frames; not while something may be stuck */
    known = seen.n;
    look_for_hang();
    look_for_error();
    bool idle = flight->sink && flight->body.len == 0;
    if (wanted[0])
        save_unasked(wanted);
    else if (force || !idle || threads_new || ++times % IDLE_FLUSHES == 0)
        flush();
    wanted[0] = '\0';
}

/* ---- edges and records ---- */

void flight_edge(const struct step_edge *edge)
{
    if (!flight && options && edge->kind != EDGE_LAST && edge->kind != EDGE_NOTE)
        begin(edge);
    if (!flight || edge->kind == EDGE_NOTE)
        return;
    if (edge->kind == EDGE_STEP && edge->step - 1 == now.step) {
        if (options->what & FLIGHT_STEPS)
            window_add_step(flight, shared, now.step, now.ticks, edge->ticks, edge->tid);
        look_at_step(now.step, ns_between(now.ticks, edge->ticks));
        forget_threads();
    }
    if (edge->step != now.step || edge->kind == EDGE_START)
        now.ticks = edge->ticks;
    now.step = edge->step;
}

/* The kind of a record, as enum flight_what; 0: the recorder keeps none of it. */
static unsigned kind_of(const struct record *r)
{
    if (r->kind == REC_MEMORY)
        return flight_wants_bytes(r->memory.bytes) ? FLIGHT_MEMORY : 0;
    if (r->kind == REC_OUT_OF_MEMORY)
        return FLIGHT_MEMORY;
    if (r->kind == REC_NODE)
        return 0;
    if (r->flags & REC_MARKER)
        return FLIGHT_MARKERS;
    struct text name = record_name(r);
    switch (r->category) {
    case CAT_USER_ANNOTATION:
        return is_transfer_range(name.at, name.len) ? FLIGHT_COLLECTIVES : FLIGHT_MARKERS;
    case CAT_COLLECTIVE:
        return FLIGHT_COLLECTIVES;
    case CAT_CPU_OP:
        return FLIGHT_OPERATORS;
    case CAT_CUDA_RUNTIME:
    case CAT_CUDA_DRIVER:
        return FLIGHT_CALLS;
    default:
        return 0;
    }
}

void flight_record(const struct record_owner *owner, const struct record *r)
{
    if (!flight || r->start < flight->from || !(options->what & kind_of(r)))
        return;
    window_add(flight, shared, owner, r);
    if (r->kind == REC_OUT_OF_MEMORY)
        want(FLIGHT_OUT_OF_MEMORY, "an allocation failed in step %lld", (long long)now.step);
    if (flight->body.len > FLUSH_BYTES)
        flush();
}

bool flight_keeps_kernels(void)
{
    return options && options->what & FLIGHT_KERNELS;
}

void flight_work(const struct join_windows *in, const struct gpu_record *r)
{
    if (!flight || !flight_keeps_kernels() || r->start < flight->from)
        return;
    join_alone(in, flight, r);
    if (flight->body.len > FLUSH_BYTES)
        flush();
}

void flight_end(void)
{
    char reason[256], to[PATH_MAX];
    const char *what = atomic_load(&end_what);
    if (!flight)
        return;
    int number = atomic_load(&end_number);
    if (what && !threads.len)
        take_threads();
    look_for_error();
    int n = snprintf(reason, sizeof reason, number < 0 ? "%s" : "%s %d", what ? what : "", number);
    if (wanted[0])
        snprintf(reason + n, sizeof reason - (size_t)n, "; %s", wanted);
    if (what)
        save(FLIGHT_END, reason, to);
    else if (wanted[0])
        save_unasked(wanted);
    if (flight)
        window_discard(flight);
    forget_threads();
    window_free(flight);
    flight = NULL;
}
