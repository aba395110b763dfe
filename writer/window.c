/* SPDX-License-Identifier: Apache-2.0 */
/* A window's events, file head and trailer. cprof thread. */
#include "writer/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer/path.h"

#define HEAD_BYTES                                                                                 \
    8192u /* fixed, so that it can be rewritten in place when rank or groups become known */
#define GZIP_LEVEL                                                                                 \
    1 /* 3 saves a tenth of the bytes and costs a third of the speed (tried.md T25) */
#define STEP_TID  4194305u /* above the kernel's largest pid: no thread has it */
#define GPU_PIDS  4096u    /* pids below are GPU ordinals to readers */
#define PID_SHIFT 1000000u

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t window_pid(uint32_t pid)
{
    return pid < GPU_PIDS ? pid + PID_SHIFT : pid;
}

void window_sum_losses(uint64_t out[LOSS_COUNT])
{
    for (int i = 0; i < LOSS_COUNT; i++)
        out[i] = atomic_load_explicit(&process_losses[i], memory_order_relaxed);
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        for (int i = 0; i < LOSS_COUNT; i++)
            out[i] += atomic_load_explicit(&log->losses[i], memory_order_relaxed);
}

struct window *window_open(const struct window_shared *shared, uint64_t serial, uint64_t from,
                           uint64_t start, int64_t first_step)
{
    struct window *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    (void)shared;
    w->serial = serial;
    w->from = from;
    w->start = start;
    w->end = UINT64_MAX;
    w->first_step = first_step;
    w->last_step = first_step - 1;
    w->base_ns = clock_base_ns(clock_wall_ns(from));
    w->cpu_before_ns = thread_cpu_ns();
    window_sum_losses(w->losses_before);
    return w;
}

/* A thread's row gets its names with the first event it has in this window. */
static void name_thread(struct window *w, const struct window_shared *shared,
                        struct thread_log *log, uint32_t tid)
{
    log->named = w->serial << 32 | tid;
    char path[64], comm[32] = "", name[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, comm, sizeof comm - 1);
        close(fd);
        if (n > 0)
            comm[n - (comm[n - 1] == '\n')] = '\0';
    }
    int n = snprintf(name, sizeof name, "thread %u (%s)", tid, comm);
    json_meta_text(&w->body, "thread_name", shared->pid, tid, "name", name, (size_t)n);
    json_meta_number(&w->body, "thread_sort_index", shared->pid, tid, tid);
}

static struct json_place place(const struct window *w, const struct window_shared *shared,
                               uint32_t tid, uint64_t start, uint64_t end)
{
    struct json_place at = {shared->pid, tid, clock_wall_ns(start) - w->base_ns, 0};
    at.end_ns = end == start ? at.start_ns : clock_wall_ns(end) - w->base_ns;
    return at;
}

/* The arrow between a forward operator and its backward node. */
static void link_backward(struct window *w, const struct window_shared *shared,
                          const struct thread_log *log, const struct record *r,
                          const struct json_place *at)
{
    if (!shared->flows || r->category != CAT_CPU_OP || r->op.sequence < 0 ||
        (r->flags & REC_BORROWED))
        return;
    if (r->op.forward_thread == 0) {
        flows_forward(shared->flows, w->serial, log->torch_thread, r->op.sequence, at);
        return;
    }
    const struct json_place *from =
        flows_find(shared->flows, w->serial, r->op.forward_thread, r->op.sequence);
    if (from && from->start_ns <= at->start_ns)
        json_flow(&w->body, "fwdbwd", r->id, from, at);
}

void window_add(struct window *w, const struct window_shared *shared, struct thread_log *log,
                const struct record *r)
{
    if (w->full && !shared->options->continuous) { /* a continuous recording goes on in the next file */
        thread_log_lost(NULL, LOSS_FILE_FULL, 1);
        return;
    }
    uint32_t tid = atomic_load_explicit(&log->tid, memory_order_relaxed);
    if (log->named != (w->serial << 32 | tid))
        name_thread(w, shared, log, tid);
    struct json_place at = place(w, shared, tid, r->start, r->end);
    json_record(&w->body, r, &at, shared->options->dtype_names, shared->options->n_dtypes);
    if (r->kind == REC_SPAN)
        link_backward(w, shared, log, r, &at);
    w->records++;
    w->events++;
}

void window_add_step(struct window *w, const struct window_shared *shared, int64_t step,
                     uint64_t start, uint64_t end)
{
    char name[64];
    if (w->last_step < w->first_step) { /* the first one */
        json_meta_text(&w->body, "thread_name", shared->pid, STEP_TID, "name", "steps", 5);
        json_meta_number(&w->body, "thread_sort_index", shared->pid, STEP_TID, 0);
    }
    snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)step);
    struct json_place at = place(w, shared, STEP_TID, start, end);
    json_span(&w->body, CAT_USER_ANNOTATION, name, &at, "");
    w->last_step = step;
    w->events++;
}

/* Copies an open span out of a thread's stack; false when the owner changed it meanwhile. */
static bool copy_open(const struct thread_log *log, uint32_t at, struct open_span *span, char *text,
                      size_t size)
{
    uint64_t id = atomic_load_explicit(&log->spans[at].id, memory_order_acquire);
    if (id == 0)
        return false;
    memcpy(span, &log->spans[at], sizeof *span);
    uint32_t len = span->text_len;
    if (span->text_at > SPAN_TEXT || len > SPAN_TEXT - span->text_at || len > size)
        len = 0;
    memcpy(text, log->text + span->text_at, len);
    span->text_len = len;
    span->data_len = 0;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&log->spans[at].id, memory_order_relaxed) == id;
}

/* Calls each() for every span of the window that is open now. Spans of a thread that has ended never will be closed. */
static void
each_open(const struct window *w,
          void (*each)(const struct open_span *, const char *text, uint32_t tid, void *), void *arg)
{
    char text[1024];
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        uint32_t depth = atomic_load_explicit(&log->depth, memory_order_acquire);
        for (uint32_t i = 0; i < depth && i < SPAN_DEPTH; i++) {
            struct open_span span;
            if (!copy_open(log, i, &span, text, sizeof text))
                break;
            if (span.start >= w->from && span.start < w->end)
                each(&span, text, atomic_load_explicit(&log->tid, memory_order_relaxed), arg);
        }
    }
}

static void count_one(const struct open_span *span, const char *text, uint32_t tid, void *count)
{
    (void)span, (void)text, (void)tid;
    ++*(uint64_t *)count;
}

bool window_has_open_spans(const struct window *w)
{
    uint64_t n = 0;
    each_open(w, count_one, &n);
    return n != 0;
}

struct trailer_arg {
    struct window *w;
    const struct window_shared *shared;
    uint64_t now;
    uint64_t count;
};

/* An open span as an event that is cut at now, or at the window's end. */
static void put_open(const struct open_span *span, const char *text, uint32_t tid, void *arg)
{
    struct trailer_arg *t = arg;
    struct {
        struct record r;
        char text[1024];
    } copy = {.r = {.kind = REC_SPAN,
                    .category = span->category,
                    .flags = REC_UNFINISHED,
                    .start = span->start,
                    .end = t->now > span->start ? t->now : span->start,
                    .id = atomic_load_explicit(&span->id, memory_order_relaxed),
                    .parent = span->parent,
                    .text_len = span->text_len}};
    copy.r.op.sequence = span->sequence;
    copy.r.op.forward_thread = span->forward_thread;
    memcpy(copy.text, text, span->text_len);
    struct json_place at = place(t->w, t->shared, tid, copy.r.start, copy.r.end);
    json_record(&t->w->trailer, &copy.r, &at, NULL, 0);
    t->count++;
}

static void put_flag(struct buf *b, const char *key, bool on)
{
    if (on)
        buf_printf(b, "\"%s\": 1,\n", key);
}

/* The head: what readers look for first (HTA reads `"rank": N` line by line), padded to its fixed size. */
static void make_head(struct window *w, const struct window_shared *shared)
{
    const struct writer_options *o = shared->options;
    struct trace_identity id = {.world_size = 1};
    if (o->identity)
        o->identity(&id);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    struct buf *b = &w->head;
    buf_reset(b);
    buf_puts(b, "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [],\n\"distributedInfo\": "
                "{\n\"backend\": ");
    const char *backend = id.backend ? id.backend : "";
    json_string(b, backend, strlen(backend));
    buf_printf(b,
               ",\n\"rank\": %lld,\n\"world_size\": %lld,\n\"local_rank\": %lld,\n\"node_rank\": "
               "%lld\n},\n",
               (long long)id.rank, (long long)id.world_size, (long long)id.local_rank,
               (long long)id.node_rank);
    buf_puts(b, "\"host_name\": ");
    json_string(b, host, strlen(host));
    buf_puts(b, ",\n");
    put_flag(b, "record_shapes", o->record_shapes);
    put_flag(b, "profile_memory", o->profile_memory);
    put_flag(b, "with_stack", o->with_stack);
    put_flag(b, "with_modules", o->with_modules);
    put_flag(b, "with_flops", o->with_flops);
    buf_printf(b, "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %lld,\n",
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

static void put_losses(struct buf *b, const struct window *w)
{
    static const char *const keys[] = {
#define LOSS(id, key, what) key,
#include "writer/losses.def"
#undef LOSS
    };
    uint64_t now[LOSS_COUNT], total = 0;
    window_sum_losses(now);
    buf_puts(b, "\"lost\": {");
    for (int i = 0; i < LOSS_COUNT; i++) {
        uint64_t n = now[i] - w->losses_before[i];
        total += n;
        buf_printf(b, "\"%s\": %llu, ", keys[i], (unsigned long long)n);
    }
    buf_printf(b, "\"total\": %llu}", (unsigned long long)total);
}

/* The `cprof` object: what this file holds, what it lost, and what recording it cost. */
static void put_account(struct window *w, const struct window_shared *shared, uint64_t open_spans)
{
    struct buf *b = &w->trailer;
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
    buf_printf(b, ", \"records\": %llu, \"events\": %llu, \"unfinished\": %llu, ",
               (unsigned long long)w->records, (unsigned long long)w->events,
               (unsigned long long)open_spans);
    put_losses(b, w);
    buf_printf(b, ", \"hook_ns\": %.0f, \"writer_cpu_ns\": %llu, \"bytes\": %llu, \"notes\": [%s]}",
               (double)w->records * shared->record_ns,
               (unsigned long long)(thread_cpu_ns() - w->cpu_before_ns),
               (unsigned long long)(w->sink ? w->sink->bytes_written : 0), shared->notes_json);
}

/* The trailer: what is open, the process's names, the account. Replaced by each flush. */
static void make_trailer(struct window *w, const struct window_shared *shared, const char *name)
{
    struct trailer_arg arg = {w, shared, clock_ticks(), 0};
    if (arg.now > w->end)
        arg.now = w->end;
    struct buf *b = &w->trailer;
    buf_reset(b);
    each_open(w, put_open, &arg);
    w->unfinished = arg.count;
    char comm[32] = "";
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, comm, sizeof comm - 1);
        close(fd);
        comm[n > 0 && comm[n - 1] == '\n' ? n - 1 : n > 0 ? n : 0] = '\0';
    }
    json_meta_text(b, "process_name", shared->pid, shared->pid, "name", comm, strlen(comm));
    json_meta_text(b, "process_labels", shared->pid, shared->pid, "labels", "CPU", 3);
    json_meta_number(b, "process_sort_index", shared->pid, shared->pid, shared->pid);
    if (b->len >= 2)
        b->len -= 2; /* the array's last event has no comma behind it */
    buf_puts(b, "\n],\n");
    buf_puts(b, shared->user_json);
    put_account(w, shared, arg.count);
    buf_puts(b, ",\n\"traceName\": ");
    json_string(b, name, strlen(name));
    buf_puts(b, "\n}\n");
}

/* Chooses the name under which the file grows; false: the template gave none. */
static bool name_part(struct window *w, const struct window_shared *shared)
{
    char path[PATH_MAX];
    struct train_time time = {.batch = w->first_step};
    if (!shared->options->trace_path(&time, path, sizeof path))
        return false;
    return path_part_name(path, getpid(), w->first_step, w->part_path, sizeof w->part_path);
}

static int flush_as(struct window *w, const struct window_shared *shared, const char *name)
{
    if (!w->sink) {
        if (!name_part(w, shared))
            return ENAMETOOLONG;
        w->sink = sink_file(w->part_path, shared->options->gzip, GZIP_LEVEL);
        if (!w->sink)
            return ENOMEM;
    }
    make_head(w, shared);
    make_trailer(w, shared, name ? name : w->part_path);
    if (w->body.failed || w->head.failed || w->trailer.failed)
        return ENOMEM;
    int error = w->sink->flush(w->sink, w->head.data, w->head.len, w->body.data, w->body.len,
                               w->trailer.data, w->trailer.len);
    if (error)
        return error;
    buf_reset(&w->body);
    if (w->sink->body_size >= shared->options->max_trace_bytes)
        w->full = true;
    return 0;
}

int window_flush(struct window *w, const struct window_shared *shared)
{
    return flush_as(w, shared, NULL);
}

/* PATH with "-n" before its ending, for a name that is taken: an elastic restart writes the same batch again. */
static bool numbered(const char *taken, int n, char path[PATH_MAX])
{
    const char *base = strrchr(taken, '/');
    base = base ? base + 1 : taken;
    const char *ending = strstr(base, ".pt.trace.json");
    if (!ending)
        ending = strrchr(base, '.');
    if (!ending)
        ending = base + strlen(base);
    int used = snprintf(path, PATH_MAX, "%.*s-%d%s", (int)(ending - taken), taken, n, ending);
    return used > 0 && used < PATH_MAX;
}

int window_finish(struct window *w, const struct window_shared *shared, char *path)
{
    if (!shared->options->trace_path(&w->time, path, PATH_MAX))
        return ENAMETOOLONG;
    char taken[PATH_MAX];
    memcpy(taken, path, sizeof taken);
    int error = flush_as(w, shared, path);
    if (error == 0)
        error = flush_as(w, shared,
                         path); /* only the trailer: now it knows the bytes that the file took */
    for (int n = 2; error == 0 && n < 1000; n++) {
        error = w->sink->finish(w->sink, path, shared->options->overwrite);
        if (error != EEXIST)
            break;
        if (!numbered(taken, n, path))
            return ENAMETOOLONG;
        error = flush_as(w, shared, path); /* the trace names itself */
    }
    return error;
}

void window_free(struct window *w)
{
    if (!w)
        return;
    sink_free(w->sink);
    buf_free(&w->body);
    buf_free(&w->head);
    buf_free(&w->trailer);
    free(w);
}
