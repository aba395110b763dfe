/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a window, and the head and trailer of its file. cprof thread. */
#include "writer/window/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/record/record.h"
#include "writer/sums/sums.h"
#include "writer/file/file.h"
#include "writer/base/base.h"
#include "writer/window/report.h"
#include "writer/window/window_memory.h"

/* fixed, so that each flush rewrites the head in place, as rank, groups and devices become known;
 * cupti/devices.c writes at most 12 KB of it */
#define HEAD_BYTES 16384u
/* level 3 saves a tenth of the bytes and costs a third of the speed (tried.md T25) */
#define GZIP_LEVEL     1
#define STEP_TID       4194305u /* above the kernel's largest tid: no thread has it */
#define MODULE_TIDS    8388608u /* added to a tid: the row of the thread's modules */
#define GPU_PIDS       4096u    /* viewers take smaller pids for GPU ordinals */
#define NAMES_TRIED    100000
#define FRAMES_FREE    (64u << 10) /* bytes of stackFrames that each flush may write */
#define FRAMES_PART    4           /* bytes of events for each byte of frames that are larger */
#define NAME_NS        100000000u  /* the process's name is read again after this time */
#define SCRATCH_KEPT   (64u << 10) /* larger heads and trailers are freed */
#define PID_SHIFT      1000000u
#define HELD_TOP_BYTES (2u << 20) /* memory for the table of a held window */
/* bytes of backward operators that wait for other threads' forward records; beyond that, arrows are
 * drawn at once from what is known */
#define BACKWARD_MOST (64u << 20)

/* Scratch for the one file that is being flushed; many windows may be open. */
static struct buf head, trailer;
static uint64_t namings; /* the last value of window.naming */

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + io_thread_cpu_ns();
}

uint32_t window_pid(uint32_t pid)
{
    return pid < GPU_PIDS ? pid + PID_SHIFT : pid;
}

struct window *window_open(uint64_t serial, uint64_t from, uint64_t start, int64_t first_step,
                           const struct losses *before)
{
    struct window *w = calloc(1, sizeof *w);
    if (!w) {
        log_warn("no memory for a trace: the steps from %lld on are not recorded",
                 (long long)first_step);
        return NULL;
    }
    w->serial = serial;
    w->naming = ++namings;
    w->from = w->warm_from = from;
    w->start = start;
    w->end = UINT64_MAX;
    w->first_step = first_step;
    w->last_step = first_step - 1;
    w->base_ns = clock_base_ns(clock_wall_ns(from));
    w->cpu_before_ns = thread_cpu_ns();
    w->handlers_before_ns = writer_listener_ns();
    w->use[USE_START] = process_use_now((uint64_t)clock_wall_ns(start));
    w->before = *before;
    return w;
}

void window_name_thread(struct window *w, const struct window_shared *shared, uint32_t tid,
                        uint64_t *named)
{
    if (*named == (w->naming << 32 | tid))
        return;
    *named = w->naming << 32 | tid;
    char path[64], comm[32] = "", name[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
    size_t len = read_file(path, comm, sizeof comm);
    if (len > 0 && comm[len - 1] == '\n')
        comm[len - 1] = '\0';
    int n = snprintf(name, sizeof name, comm[0] ? "thread %u (%s)" : "thread %u", tid, comm);
    struct thread_name given;
    if (thread_names_find(tid, &given))
        json_meta_text(&w->body, "thread_name", shared->pid, tid, "name", given.text, given.len);
    else
        json_meta_text(&w->body, "thread_name", shared->pid, tid, "name", name, (size_t)n);
    json_meta_number(&w->body, "thread_sort_index", shared->pid, tid, tid);
}

/* The row of a record: the modules of a thread have a row of their own. */
static uint32_t row_of(const struct record *r, uint32_t tid)
{
    return r->category == CAT_MODULE ? tid + MODULE_TIDS : tid;
}

static void name_modules(struct window *w, const struct window_shared *shared,
                         const struct record_owner *owner)
{
    uint64_t now = w->naming << 32 | owner->tid;
    if (owner->log->modules_named == now)
        return;
    owner->log->modules_named = now;
    char name[64];
    int n = snprintf(name, sizeof name, "modules of thread %u", owner->tid);
    uint32_t row = owner->tid + MODULE_TIDS;
    json_meta_text(&w->body, "thread_name", shared->pid, row, "name", name, (size_t)n);
    json_meta_number(&w->body, "thread_sort_index", shared->pid, row, owner->tid);
}

struct json_place window_place(const struct window *w, const struct window_shared *shared,
                               uint32_t tid, uint64_t start, uint64_t end)
{
    struct json_place at = {shared->pid, tid, clock_wall_ns(start) - w->base_ns, 0};
    at.end_ns = end == start ? at.start_ns : clock_wall_ns(end) - w->base_ns;
    return at;
}

/* Notes a forward operator, or draws the arrow to a backward node. The arrow waits when the forward
 * operator ran on another thread. */
static void link_backward(struct window *w, const struct window_shared *shared,
                          const struct record_owner *owner, const struct record *r,
                          const struct json_place *at)
{
    if (!shared->flows || r->category != CAT_CPU_OP || r->op.sequence < 0 ||
        (r->flags & REC_BORROWED))
        return;
    if (r->op.forward_thread == 0) {
        flows_forward(shared->flows, w->serial, owner->torch_thread, r->op.sequence, at);
        return;
    }
    struct flow_end end = {r->id, r->op.forward_thread, r->start, r->op.sequence, *at};
    bool waits = r->op.forward_thread != owner->torch_thread && w->backward.len < BACKWARD_MOST;
    if (waits)
        buf_put(&w->backward, &end, sizeof end);
    if (!waits || w->backward.failed)
        flows_draw(shared->flows, w->serial, &end, &w->body);
}

void window_taken_until(struct window *w, const struct window_shared *shared, uint64_t ticks)
{
    window_memory_settle(w, shared, ticks);
    if (w->backward.len)
        flows_settle(shared->flows, w->serial, &w->backward, ticks, &w->body);
}

bool window_takes(const struct window *w, uint64_t start, uint8_t flags)
{
    bool of_warmup = (flags & (REC_MARKER | REC_TASK)) == REC_MARKER;
    uint64_t from = flags & REC_SKIPPED ? w->from : of_warmup ? w->warm_from : w->start;
    return start < w->end && start >= from;
}

bool window_room(struct window *w, const struct window_shared *shared)
{
    if (!w->full || shared->options->continuous || w->held)
        return true; /* a continuous recording goes on in the next file */
    w->lost.n[LOSS_FILE_FULL]++;
    return false;
}

struct flop_stats *window_flops(struct window *w, const struct window_shared *shared)
{
    if (!w->flops_tried && shared->options->with_flops) {
        w->flops_tried = true;
        w->flops = flop_stats_make(clock_wall_ns(w->start) - w->base_ns);
        if (!w->flops)
            log_warn("no memory: the FLOPs of this trace are not counted");
    }
    return w->flops;
}

/* The window's end; of an open window, the latest time known. */
static uint64_t end_of(const struct window *w)
{
    return w->end != UINT64_MAX ? w->end : w->latest > w->start ? w->latest : w->start;
}

void window_flops_account(const struct window *w, const struct window_shared *shared, struct buf *b)
{
    flop_stats_account(w->flops, clock_wall_ns(end_of(w)) - clock_wall_ns(w->start),
                       shared->options, b);
}

struct top *window_top(struct window *w, const struct window_shared *shared)
{
    if (!w->top_tried) {
        w->top_tried = true;
        uint64_t most = shared->options->top_bytes;
        w->top = top_make(w->held && most > HELD_TOP_BYTES ? HELD_TOP_BYTES : most);
    }
    return w->top;
}

/* Renames the program's step ranges, where cprof has step rows of its own. */
static struct text shown_name(const struct window *w, const struct record *r,
                              char room[RANGE_NAME_ROOM])
{
    struct text name = record_name(r);
    return w->markless ? name : json_range_name(name, room);
}

void window_add(struct window *w, const struct window_shared *shared,
                const struct record_owner *owner, const struct record *r)
{
    if (w->settled && window_left_open(&w->open_ids, r->id))
        return; /* it ended after settlement: the file has it as unfinished */
    if (!window_room(w, shared))
        return;
    window_name_thread(w, shared, owner->tid, &owner->log->named);
    if (r->category == CAT_MODULE)
        name_modules(w, shared, owner);
    struct json_place at = window_place(w, shared, row_of(r, owner->tid), r->start, r->end);
    flop_stats_span(window_flops(w, shared), owner->log, r, &at);
    stacks_use(&w->stacks, stacks_of(r));
    char room[RANGE_NAME_ROOM];
    json_record(&w->body, r, shown_name(w, r, room), &at, shared->options->dtype_names,
                shared->options->n_dtypes);
    if (r->start >= w->start) /* the table leaves out markers of warmup steps */
        top_record(window_top(w, shared), r, &at);
    if (r->kind == REC_SPAN)
        link_backward(w, shared, owner, r, &at);
    else if (r->kind == REC_MEMORY || r->kind == REC_OUT_OF_MEMORY)
        window_memory_take(w, shared, owner, r);
    if (r->end > w->latest)
        w->latest = r->end;
    w->records++;
    w->events += r->kind != REC_OUT_OF_MEMORY; /* written at settlement */
}

static bool has_step(const struct window *w)
{
    return w->last_step >= w->first_step;
}

void window_add_step(struct window *w, const struct window_shared *shared, int64_t step,
                     uint64_t start, uint64_t end, uint32_t thread)
{
    char name[64], args[64] = "";
    if (!has_step(w)) {
        json_meta_text(&w->body, "thread_name", shared->pid, STEP_TID, "name", "steps", 5);
        json_meta_number(&w->body, "thread_sort_index", shared->pid, STEP_TID, 0);
        w->use[USE_FIRST] = process_use_now((uint64_t)clock_wall_ns(end));
    }
    snprintf(name, sizeof name, STEP_NAME "%lld", (long long)step);
    struct json_place at = window_place(w, shared, STEP_TID, start, end);
    flop_stats_step(window_flops(w, shared), at.start_ns, at.end_ns, shared->options, shared->pid,
                    &w->body);
    /* Starts 1 ns after the end of the step before. torch_tb_profiler adds ts and dur as doubles,
     * which may be 0.5 ns too high, takes the rows for overlapping, and drops one. The end stays
     * exact: what ended the step ends with it. */
    if (at.end_ns > at.start_ns)
        at.start_ns++;
    if (thread)
        snprintf(args, sizeof args, "\"thread\": %u", thread);
    json_span(&w->body, CAT_USER_ANNOTATION, name, &at, args);
    top_step(window_top(w, shared), name, &at, thread);
    w->last_step = step;
    w->steps_end = end;
    w->events++;
}

bool window_ends(const struct window *w, const struct step_edge *edge)
{
    if (edge->begun < ACTION_ACTIVE || edge->kind == EDGE_START)
        return true;
    if (edge->kind == EDGE_STEP)
        return edge->ended == ACTION_ACTIVE_AND_SAVE;
    /* without a step, it began with the new epoch */
    return edge->kind == EDGE_EPOCH && has_step(w);
}

void window_close(struct window *w, const struct step_edge *edge, uint64_t pass)
{
    bool in_a_step = edge->kind == EDGE_EPOCH || edge->kind == EDGE_SCHEDULE;
    w->end = edge->ticks;
    w->closed_at = edge->ticks;
    w->closed_pass = pass;
    w->at_end = edge->losses;
    w->use[USE_END] = process_use_now((uint64_t)clock_wall_ns(edge->ticks));
    w->time = edge->time;
    w->partial = edge->kind == EDGE_STOP || edge->kind == EDGE_LAST;
    w->unwanted = edge->kind == EDGE_START || (in_a_step && !has_step(w));
}

/* Calls each() for every span of the window that is open now, asynchronous ranges included. */
static void each_open(const struct window *w,
                      void (*each)(const struct open_copy *, uint32_t tid, void *), void *arg)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint32_t depth = atomic_load_explicit(&log->depth, memory_order_acquire);
        for (uint32_t i = 0; i < depth && i < SPAN_DEPTH; i++) {
            struct open_copy span;
            if (!open_copy_take(log, i, &span) || span.id == log->last_span)
                break; /* its record is out already, and so are those of the spans inside it */
            if (window_takes(w, span.start, span.flags))
                each(&span, atomic_load_explicit(&log->tid, memory_order_relaxed), arg);
        }
    }
    for (uint32_t i = 0; i < async_places(); i++) {
        struct open_copy range;
        uint32_t tid;
        if (async_copy_take(i, &range, &tid) && window_takes(w, range.start, range.flags))
            each(&range, tid, arg);
    }
}

static void count_one(const struct open_copy *span, uint32_t tid, void *count)
{
    (void)span, (void)tid;
    ++*(uint64_t *)count;
}

bool window_has_open_spans(const struct window *w)
{
    uint64_t n = 0;
    each_open(w, count_one, &n);
    return n != 0;
}

struct put_arg {
    struct window *w;
    const struct window_shared *shared;
    uint64_t now;
    uint64_t ended; /* how many of the spans have ended */
};

/* Writes an open span as an event, cut at `now` or at the window's end, unless its end is known by
 * then. */
static void put_open(const struct open_copy *span, uint32_t tid, void *arg)
{
    struct put_arg *put = arg;
    bool over = span->ended && span->ended <= put->now;
    uint64_t end = over ? span->ended : put->now;
    struct {
        struct record r;
        char text[OPEN_TEXT + sizeof span->extra];
    } copy = {.r = {.kind = REC_SPAN,
                    .category = span->category,
                    .flags = span->flags | (over ? 0 : REC_UNFINISHED),
                    .extras = span->extras,
                    .start = span->start,
                    .end = end > span->start ? end : span->start,
                    .id = span->id,
                    .parent = span->parent,
                    .name = span->name}};
    copy.r.op.sequence = span->sequence;
    copy.r.op.forward_thread = span->forward_thread;
    put->ended += over;
    if (span->flags & REC_CROSSES || (over && span->category != CAT_CPU_OP)) {
        copy.r.kind = REC_ASYNC;
        copy.r.async.tid = tid;
    }
    memcpy(copy.text, span->text, name_bytes(span->name));
    char *extra = copy.text + name_bytes(span->name);
    for (unsigned mask = span->extras & EXTRAS_VALUES; mask;
         mask &= mask - 1, extra += sizeof(uint64_t))
        memcpy(extra, &span->extra[__builtin_ctz(mask)], sizeof(uint64_t));
    uint32_t row = row_of(&copy.r, tid);
    struct json_place at = window_place(put->w, put->shared, row, copy.r.start, copy.r.end);
    stacks_use(&put->w->stacks, stacks_of(&copy.r));
    char room[RANGE_NAME_ROOM];
    json_record(&put->w->open, &copy.r, shown_name(put->w, &copy.r, room), &at, NULL, 0);
    if (span->start >= put->w->start)
        top_open(window_top(put->w, put->shared), &copy.r, &at);
    buf_put(&put->w->open_ids, &span->id, sizeof span->id);
}

static void read_open_spans(struct window *w, const struct window_shared *shared)
{
    struct put_arg put = {w, shared, clock_ticks(), 0};
    /* records of the window may end after it */
    uint64_t end = w->latest > w->end ? w->latest : w->end;
    if (put.now > end)
        put.now = end;
    buf_reset(&w->open);
    buf_reset(&w->open_ids);
    top_forget_open(w->top);
    each_open(w, put_open, &put);
    w->unfinished = w->open_ids.len / sizeof(uint64_t) - put.ended;
}

void window_settle(struct window *w, const struct window_shared *shared)
{
    read_open_spans(w, shared);
    w->settled = true;
}

bool window_left_open(const struct buf *open_ids, uint64_t id)
{
    for (size_t i = 0; i < open_ids->len; i += sizeof id)
        if (memcmp(open_ids->data + i, &id, sizeof id) == 0)
            return true;
    return false;
}

static void put_flag(struct buf *b, const char *key, bool on)
{
    if (on)
        buf_printf(b, "\"%s\": 1,\n", key);
}

/* Makes the head, padded to its fixed size. HTA reads `"rank": N` line by line. */
static void make_head(struct window *w, const struct window_shared *shared)
{
    const struct writer_options *o = shared->options;
    struct trace_identity id = {.world_size = 1};
    if (o->identity)
        o->identity(&id);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    struct buf *b = &head;
    buf_reset(b);
    buf_puts(b, "{\n\"schemaVersion\": 1,\n\"deviceProperties\": ");
    buf_puts(b, o->gpu ? o->gpu->devices_json() : "[]");
    buf_puts(b, ",\n\"distributedInfo\": {\n\"backend\": ");
    const char *backend = id.backend ? id.backend : "";
    json_string(b, backend, strlen(backend));
    char local_rank[24] = "null";
    if (id.local_rank >= 0)
        snprintf(local_rank, sizeof local_rank, "%lld", (long long)id.local_rank);
    buf_printf(b,
               ",\n\"rank\": %lld,\n\"world_size\": %lld,\n\"local_rank\": %s,\n\"node_rank\": "
               "%lld\n},\n",
               (long long)id.rank, (long long)id.world_size, local_rank, (long long)id.node_rank);
    buf_puts(b, "\"host_name\": ");
    json_string(b, host, strlen(host));
    buf_puts(b, ",\n");
    buf_puts(b, o->gpu ? o->gpu->versions_json() : "");
    put_flag(b, "record_shapes", o->record_shapes);
    put_flag(b, "profile_memory", o->profile_memory);
    put_flag(b, "with_stack", o->with_stack);
    put_flag(b, "with_modules", o->with_modules);
    put_flag(b, "with_flops", o->with_flops);
    /* Earlier events are markers of steps that were not recorded. */
    buf_puts(b, "\"recorded_from\": ");
    json_us(b, clock_wall_ns(w->start) - w->base_ns);
    buf_printf(b, ",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %lld,\n",
               (long long)w->base_ns);
    static const char array[] = "\"traceEvents\": [\n";
    size_t tail = sizeof array - 1;
    char *room = buf_room(b, HEAD_BYTES);
    if (!room || b->len + tail + 1 > HEAD_BYTES) {
        b->failed = true;
        return;
    }
    memset(room, ' ', HEAD_BYTES - b->len - tail - 1);
    b->len = HEAD_BYTES - tail - 1;
    buf_puts(b, "\n");
    buf_puts(b, array);
}

static void put_losses(struct buf *b, struct window *w)
{
    static const char *const keys[] = {
#define LOSS(id, key, what) key,
#include "writer/record/losses.def"
#undef LOSS
    };
    struct losses until = w->at_end;
    w->lost_total = 0;
    if (w->end == UINT64_MAX)
        loss_sum(&until);
    buf_puts(b, "\"lost\": {");
    for (int i = 0; i < LOSS_COUNT; i++) {
        uint64_t n = until.n[i] - w->before.n[i] + w->lost.n[i];
        w->lost_total += n;
        buf_printf(b, "\"%s\": %llu, ", keys[i], (unsigned long long)n);
    }
    buf_printf(b, "\"total\": %llu}", (unsigned long long)w->lost_total);
}

/* The counts of the GPU side; nothing without GPU records. */
static void put_gpu(struct buf *b, const struct window_gpu *g)
{
    if (g->records == 0 && g->calls_waiting == 0)
        return;
    buf_printf(b,
               "\"gpu\": {\"records\": %llu, \"kernels\": %llu, \"copies\": %llu, \"fills\": %llu, "
               "\"syncs\": %llu, \"before_call\": %llu, \"graph_launches\": %llu, "
               "\"graph_launches_without_work\": %llu}, ",
               (unsigned long long)g->records, (unsigned long long)g->kernels,
               (unsigned long long)g->copies, (unsigned long long)g->fills,
               (unsigned long long)g->syncs, (unsigned long long)g->before_call,
               (unsigned long long)g->graphs, (unsigned long long)g->graphs_silent);
}

/* The `cprof` object: what this file holds, what it lost, and what recording it cost. */
static void put_account(struct window *w, const struct window_shared *shared)
{
    struct buf *b = &trailer;
    struct trace_identity id = {.world_size = 1};
    if (shared->options->identity)
        shared->options->identity(&id);
    buf_puts(b, "\"cprof\": {\"version\": \"" CPROF_VERSION "\", \"rank_from\": ");
    const char *source = id.source ? id.source : "default";
    json_string(b, source, strlen(source));
    buf_printf(b,
               ", \"first_step\": %lld, \"last_step\": %lld, \"complete\": %s, \"partial\": %s, "
               "\"marked\": %s",
               (long long)w->first_step, (long long)w->last_step,
               w->end != UINT64_MAX ? "true" : "false", w->partial ? "true" : "false",
               w->markless ? "false" : "true");
    const char *path = metadata_record_path(end_of(w));
    if (path)
        buf_printf(b, ", \"record_path\": \"%s\"", path);
    buf_printf(b, ", \"records\": %llu, \"events\": %llu, \"unfinished\": %llu, ",
               (unsigned long long)w->records, (unsigned long long)w->events,
               (unsigned long long)w->unfinished);
    optimizers_account(b);
    put_gpu(b, &w->gpu);
    if (w->merged.files)
        buf_printf(b, "\"merged\": {\"files\": %llu, \"events\": %llu, \"left_out\": %llu}, ",
                   (unsigned long long)w->merged.files, (unsigned long long)w->merged.events,
                   (unsigned long long)w->merged.left_out);
    window_memory_account(w, b);
    window_flops_account(w, shared, b);
    if (w->end != UINT64_MAX)
        process_use_account(w->use, shared->options, b);
    put_losses(b, w);
    buf_printf(b,
               ", \"hook_ns\": %.0f, \"writer_cpu_ns\": %llu, \"handlers_ns\": %llu, \"bytes\": "
               "%llu, \"notes\": [%s",
               (double)w->records * shared->record_ns,
               (unsigned long long)(thread_cpu_ns() - w->cpu_before_ns),
               (unsigned long long)(writer_listener_ns() - w->handlers_before_ns),
               (unsigned long long)(w->sink ? w->sink->bytes_written : 0), shared->notes_json);
    const char *gap = metadata_gap(w->start, end_of(w));
    if (gap) {
        buf_puts(b, *shared->notes_json ? ", " : "");
        json_string(b, gap, strlen(gap));
    }
    buf_puts(b, "]}");
}

/* Read again for trailers, because programs rename themselves, but not for each one where flushes
 * follow each other fast: each of its system calls waits for the other thread. */
static char process_name[32];
static uint64_t name_read_ns;

static void read_process_name(void)
{
    size_t n = read_file("/proc/self/comm", process_name, sizeof process_name);
    if (n > 0 && process_name[n - 1] == '\n')
        process_name[n - 1] = '\0';
    name_read_ns = clock_monotonic_ns();
}

const char *window_process_name(void)
{
    if (!process_name[0])
        read_process_name();
    return process_name;
}

/* Names that the program gave to threads after their rows were named. */
static void put_new_names(struct window *w, const struct window_shared *shared, struct buf *b)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint32_t tid = (uint32_t)log->named;
        struct thread_name given;
        if (log->named >> 32 == w->naming && thread_names_find(tid, &given) &&
            given.ticks >= w->from)
            json_meta_text(b, "thread_name", shared->pid, tid, "name", given.text, given.len);
    }
}

/* The frames of the stacks. Each flush replaces the trailer. So the open file has large frames only
 * once as much else was written, and after that whenever FRAMES_PART times as much was. The
 * complete file always has them. */
static void put_frames(struct window *w, bool complete)
{
    w->frames_credit += (int64_t)w->body.len;
    if (!complete && w->stacks.bytes > FRAMES_FREE) {
        if ((int64_t)w->stacks.bytes > w->frames_credit)
            return;
        w->frames_credit -= FRAMES_PART * (int64_t)w->stacks.bytes;
    }
    stacks_frames(&trailer, &w->stacks);
}

/* Makes the trailer, which each flush replaces: open spans, the process's names, the account. */
static void make_trailer(struct window *w, const struct window_shared *shared, const char *name)
{
    if (!w->settled)
        read_open_spans(w, shared);
    struct buf *b = &trailer;
    buf_reset(b);
    buf_put(b, w->open.data, w->open.len);
    int64_t end = w->end == UINT64_MAX ? -1 : clock_wall_ns(w->end) - w->base_ns;
    flop_stats_counters(w->flops, end, shared->options, shared->pid, b);
    put_new_names(w, shared, b);
    if (name != w->part_path || clock_monotonic_ns() - name_read_ns > NAME_NS)
        read_process_name();
    const char *comm = process_name;
    json_meta_text(b, "process_name", shared->pid, shared->pid, "name", comm, strlen(comm));
    json_meta_text(b, "process_labels", shared->pid, shared->pid, "labels", "CPU", 3);
    json_meta_number(b, "process_sort_index", shared->pid, shared->pid, shared->pid);
    if (b->len >= 2)
        b->len -= 2; /* no comma after the last event */
    buf_puts(b, "\n],\n");
    buf_puts(b, shared->user_json);
    put_frames(w, name != w->part_path);
    put_account(w, shared);
    buf_puts(b, ",\n\"traceName\": ");
    json_string(b, name, strlen(name));
    buf_puts(b, "\n}\n");
}

/* Writes PATH for n = 1, else PATH with "-n" before its ending. False: too long. */
static bool numbered(const char *path, int n, char out[PATH_MAX])
{
    const char *ending = path_ending(path);
    char number[16] = "";
    if (n > 1)
        snprintf(number, sizeof number, "-%d", n);
    int used = snprintf(out, PATH_MAX, "%.*s%s%s", (int)(ending - path), path, number, ending);
    return used > 0 && used < PATH_MAX;
}

/* A window with many stacks has a trailer of megabytes; others need little. */
static void release_scratch(void)
{
    if (head.cap > SCRATCH_KEPT)
        buf_free(&head);
    if (trailer.cap > SCRATCH_KEPT)
        buf_free(&trailer);
}

/* Begins the newer half of a held window's file; its rows are named again. */
static void begin_newer_half(struct window *w)
{
    w->half.bytes = w->sink->body_size;
    w->half.events = w->flushed;
    w->naming = ++namings;
    lanes_rename(w->gpu.lanes);
}

/* Makes room in a held window's file by dropping its older half. Drops the table too, which counts
 * what is dropped. 0 or errno. */
static int drop_older_half(struct window *w, uint64_t most)
{
    if (!w->held || w->sink->bytes_written + w->body.len <= most)
        return 0;
    if (w->half.bytes == 0)
        begin_newer_half(w);
    int error = w->sink->drop(w->sink, w->half.bytes);
    if (error)
        return error;
    w->lost.n[LOSS_HOLD_FULL] += w->half.events;
    w->events -= w->half.events;
    w->flushed -= w->half.events;
    top_free(w->top);
    w->top = NULL;
    begin_newer_half(w);
    return 0;
}

static uint64_t held_limit(const struct writer_options *o)
{
    return o->held_bytes < o->max_trace_bytes ? o->held_bytes : o->max_trace_bytes;
}

static int flush_as(struct window *w, const struct window_shared *shared, const char *name)
{
    uint64_t held_most = held_limit(shared->options);
    int error = drop_older_half(w, held_most);
    if (error)
        return error;
    make_head(w, shared);
    make_trailer(w, shared, name);
    bool failed = w->body.failed || head.failed || trailer.failed || w->open.failed;
    pen_take();
    error = failed ? ENOMEM
                   : w->sink->flush(w->sink, head.data, head.len, w->body.data, w->body.len,
                                    trailer.data, trailer.len);
    pen_give(error == 0);
    release_scratch();
    if (error)
        return error;
    if (w->end != UINT64_MAX)
        buf_free(&w->body); /* a closed window may wait for a kernel; little more comes */
    else
        buf_reset(&w->body);
    w->flushed = w->events;
    if (w->held && w->half.bytes == 0 && w->sink->body_size >= held_most / 2)
        begin_newer_half(w);
    if (!w->held && w->sink->body_size >= shared->options->max_trace_bytes)
        w->full = true;
    return 0;
}

/* The name of the .part file at try n. */
static bool part_name(struct window *w, const char *path, int n)
{
    char free_path[PATH_MAX];
    if (w->held)
        return path_prestep_name(path, getpid(), n, w->part_path, sizeof w->part_path);
    return numbered(path, n, free_path) &&
           path_part_name(free_path, getpid(), w->first_step, w->part_path, sizeof w->part_path);
}

/* Makes the .part file. Its name may be taken: in a container by a killed run with the same pid, in
 * a continuous recording by an earlier file of the same step. */
static int make_file(struct window *w, const struct window_shared *shared)
{
    char path[PATH_MAX];
    struct train_time time = {.batch = w->first_step};
    if (!shared->options->trace_path(&time, path, sizeof path))
        return ENAMETOOLONG;
    int error = EEXIST;
    for (int n = 1; error == EEXIST && n < NAMES_TRIED; n++) {
        if (!part_name(w, path, n))
            return ENAMETOOLONG;
        sink_free(w->sink);
        w->sink = sink_file(w->part_path, shared->options->gzip, GZIP_LEVEL);
        error = w->sink ? flush_as(w, shared, w->part_path) : ENOMEM;
    }
    return error;
}

int window_flush(struct window *w, const struct window_shared *shared)
{
    return w->sink ? flush_as(w, shared, w->part_path) : make_file(w, shared);
}

/* True when the trace may have this name. A file of this run is never replaced: at exit the partial
 * window may have the batch of the one before. Nor is anything but a regular file. */
static bool may_take_name(const struct writer_options *options, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return true;
    return options->overwrite && S_ISREG(st.st_mode) && is_of_earlier_run(&st, options);
}

int window_finish(struct window *w, const struct window_shared *shared, char *path)
{
    char wanted[PATH_MAX];
    if (!shared->options->trace_path(&w->time, wanted, sizeof wanted))
        return ENAMETOOLONG;
    window_taken_until(w, shared, UINT64_MAX);
    int error = window_flush(w, shared);
    for (int n = 1; error == 0 && n < NAMES_TRIED; n++) {
        if (!numbered(wanted, n, path))
            return ENAMETOOLONG;
        if (!may_take_name(shared->options, path))
            continue;
        error = flush_as(w, shared,
                         path); /* again: the trailer holds the final name and the bytes written */
        if (error)
            return error;
        error = w->sink->finish(w->sink, path, shared->options->overwrite);
        if (error != EEXIST)
            return error;
        error = 0; /* the name was taken meanwhile */
    }
    return error ? error : EEXIST;
}

void window_discard(struct window *w)
{
    if (w->sink)
        w->sink->discard(w->sink);
}

uint64_t window_bytes(const struct window *w)
{
    return sizeof *w + w->body.cap + w->backward.cap + w->open.cap + w->open_ids.cap +
           top_bytes(w->top) + memory_owners_bytes(w->memory) + lanes_bytes(w->gpu.lanes) +
           w->stacks.words * sizeof *w->stacks.bits + (w->sink ? w->sink->memory : 0);
}

void window_free(struct window *w)
{
    if (!w)
        return;
    sink_free(w->sink);
    lanes_free(w->gpu.lanes);
    gpu_memory_free(&w->gpu.memory);
    memory_owners_free(w->memory);
    flop_stats_free(w->flops);
    top_free(w->top);
    buf_free(&w->body);
    buf_free(&w->backward);
    buf_free(&w->open);
    buf_free(&w->open_ids);
    stacks_used_free(&w->stacks);
    free(w);
}
