/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, and writes the counts for Prometheus. Names, units and types follow its conventions. */
#define _GNU_SOURCE
#include "writer/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "writer/base/base.h"
#include "writer/flight.h"
#include "writer/record/record.h"
#include "writer/sums/sums.h"

#define STEPS_SEEN 1024u /* the last steps, for the quantiles */
#define DEVICES    16u
/* Of each file; the number of the process, and that of its namespace of processes follow. */
#define FIRST_LINE "# cprof process "
#define SECOND_NS  1000000000u
#define DIGITS     9

static const struct writer_options *options; /* NULL: there are no metrics */
static char path[PATH_MAX];                  /* absolute; "": not chosen yet */
static struct file_identity written;         /* the file of the last time; inode 0: none */
static uint64_t written_ns;

static struct {
    uint64_t steps, traces;
    double seconds; /* of all steps */
    double last;
    struct train_time time;
    uint64_t begun;          /* ticks at which the current step began; 0: none has */
    uint64_t ns[STEPS_SEEN]; /* of the last steps */
} now;

/* Of the last trace. */
static struct {
    struct flop_rates flops[DEVICES];
    struct window_memory_use memory[DEVICES];
    struct step_shares shares[DEVICES];
    unsigned n_flops, n_memory, n_shares;
    int64_t saved_ns; /* wall clock; 0: there is none */
} window;

void metrics_start(const struct writer_options *given)
{
    options = given->metrics_path ? given : NULL;
    if (options)
        edges_want_all();
}

bool metrics_run(void)
{
    return options;
}

static void give_up(const char *why)
{
    log_warn("%s: no metrics are written: %s", path, why);
    options = NULL;
}

/* Such as a full disk: the next time may be better. */
static void fail(const char *why)
{
    if (once_here())
        log_warn("%s: cannot write the metrics: %s; it is tried again every %d s", path, why,
                 METRICS_S);
}

/* ---- counting ---- */

void metrics_edge(const struct step_edge *edge)
{
    if (!options || edge->kind == EDGE_NOTE)
        return;
    now.time = edge->time;
    if (edge->kind == EDGE_STEP && now.begun) {
        uint64_t ns = (uint64_t)(clock_wall_ns(edge->ticks) - clock_wall_ns(now.begun));
        now.last = (double)ns * 1e-9;
        now.seconds += now.last;
        now.ns[now.steps++ % STEPS_SEEN] = ns;
    }
    if (edge->kind == EDGE_STEP || edge->kind == EDGE_FIRST || edge->kind == EDGE_START)
        now.begun = edge->ticks;
}

void metrics_window(const struct window *w, bool saved)
{
    if (!options || !saved)
        return;
    now.traces++;
    window.saved_ns = clock_wall_ns(clock_ticks());
    window.n_flops = window_flop_rates(w, options, window.flops, DEVICES);
    window.n_memory = window_memory_uses(w, window.memory, DEVICES);
    window.n_shares = summary_shares(w->summary, window.shares, DEVICES);
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* ---- text ---- */

static char labels[640]; /* those of every sample, without braces */

/* A label's value, escaped and cut. What is no UTF-8 becomes U+FFFD: readers refuse it. */
static void put_value(char *out, size_t size, const char *text)
{
    size_t used = 0, left = strlen(text);
    while (left > 0 && used + 5 < size) {
        size_t n = json_utf8_length(text, left), taken = n ? n : 1;
        const char *from = n ? text : *text == '\n' ? "n" : "\xef\xbf\xbd";
        size_t len = n ? n : *from == 'n' ? 1 : 3;
        if (*text == '"' || *text == '\\' || *text == '\n')
            out[used++] = '\\';
        memcpy(out + used, from, len);
        used += len;
        text += taken;
        left -= taken;
    }
    out[used] = '\0';
}

static void make_labels(void)
{
    struct trace_identity id = {.rank = 0};
    char run[400], text[200];
    if (options->identity)
        options->identity(&id);
    snprintf(text, sizeof text, "%s", options->run_name ? options->run_name : "");
    put_value(run, sizeof run, text);
    snprintf(labels, sizeof labels, "rank=\"%lld\",run=\"%s\"", (long long)id.rank, run);
}

/* Begins a metric: its help and type. */
static void head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A sample; label: a further one, or "". */
static void sample(struct buf *b, const char *name, const char *label, double value)
{
    buf_printf(b, "%s{%s%s%s} ", name, labels, *label ? "," : "", label);
    json_rounded(b, value, DIGITS);
    buf_puts(b, "\n");
}

static void metric(struct buf *b, const char *name, const char *type, const char *help,
                   double value)
{
    head(b, name, type, help);
    sample(b, name, "", value);
}

static void put_steps(struct buf *b)
{
    static uint64_t sorted[STEPS_SEEN];
    size_t n = now.steps < STEPS_SEEN ? now.steps : STEPS_SEEN;
    memcpy(sorted, now.ns, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    head(b, "cprof_step_duration_seconds", "summary",
         "Duration of steps; the quantiles are those of the last 1024.");
    if (n) {
        sample(b, "cprof_step_duration_seconds", "quantile=\"0.5\"", (double)sorted[n / 2] * 1e-9);
        sample(b, "cprof_step_duration_seconds", "quantile=\"0.99\"",
               (double)sorted[n * 99 / 100] * 1e-9);
    }
    sample(b, "cprof_step_duration_seconds_sum", "", now.seconds);
    sample(b, "cprof_step_duration_seconds_count", "", (double)now.steps);
    if (n)
        metric(b, "cprof_step_last_seconds", "gauge", "Duration of the last step.", now.last);
    if (now.begun)
        metric(b, "cprof_step_age_seconds", "gauge", "Time since the current step began.",
               (double)(clock_wall_ns(clock_ticks()) - clock_wall_ns(now.begun)) * 1e-9);
    if (now.time.sample)
        metric(b, "cprof_samples_total", "counter", "Samples of the completed steps.",
               (double)now.time.sample);
    if (now.time.token)
        metric(b, "cprof_tokens_total", "counter", "Tokens of the completed steps.",
               (double)now.time.token);
}

/* One metric of all devices. at: the value in a row; below 0 it is left out. */
static void put_devices(struct buf *b, const char *name, const char *help, const void *rows,
                        unsigned n, size_t size, size_t name_at, size_t value_at)
{
    bool begun = false;
    for (unsigned i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * size;
        char label[80];
        double value;
        memcpy(&value, row + value_at, sizeof value);
        if (value < 0)
            continue;
        if (!begun)
            head(b, name, "gauge", help);
        begun = true;
        snprintf(label, sizeof label, "device=\"%s\"", row + name_at);
        sample(b, name, label, value);
    }
}

/* What the steps of the last trace consist of. */
static void put_shares(struct buf *b)
{
    static const char *const parts[] = {
#define PART(id, name) name,
#include "writer/sums/step_parts.def"
#undef PART
    };
    if (window.n_shares)
        head(b, "cprof_trace_step_ratio", "gauge", "Parts of the steps in the last trace.");
    for (unsigned i = 0; i < window.n_shares; i++)
        for (int part = 0; part < STEP_PARTS; part++) {
            char label[80], device[24] = "CPU";
            if (window.shares[i].device != GPU_NONE)
                snprintf(device, sizeof device, "CUDA:%u", window.shares[i].device);
            snprintf(label, sizeof label, "device=\"%s\",part=\"%s\"", device, parts[part]);
            sample(b, "cprof_trace_step_ratio", label, window.shares[i].share[part]);
        }
}

static void put_window(struct buf *b)
{
#define FLOPS(name, field, help)                                                                   \
    put_devices(b, name, help, window.flops, window.n_flops, sizeof *window.flops,                 \
                offsetof(struct flop_rates, device), offsetof(struct flop_rates, field))
#define MEMORY(name, field, help)                                                                  \
    put_devices(b, name, help, window.memory, window.n_memory, sizeof *window.memory,              \
                offsetof(struct window_memory_use, device),                                        \
                offsetof(struct window_memory_use, field))
    metric(b, "cprof_traces_total", "counter", "Traces that were saved.", (double)now.traces);
    if (window.saved_ns)
        metric(b, "cprof_trace_timestamp_seconds", "gauge", "When the last trace was saved.",
               (double)window.saved_ns * 1e-9);
    FLOPS("cprof_trace_flops_per_second", per_second, "FLOPs per second in the last trace.");
    FLOPS("cprof_trace_mfu_ratio", model, "MFU in the last trace: FLOPs without recomputed ones.");
    FLOPS("cprof_trace_hfu_ratio", hardware, "HFU in the last trace: all FLOPs.");
    MEMORY("cprof_trace_memory_peak_bytes", peak, "Most tensor memory in the last trace.");
    MEMORY("cprof_trace_memory_bytes", last, "Tensor memory at the end of the last trace.");
    put_shares(b);
}

static void put_losses(struct buf *b)
{
    static const char *const keys[] = {
#define LOSS(id, key, what) key,
#include "writer/record/losses.def"
#undef LOSS
    };
    struct losses sum;
    loss_sum(&sum);
    head(b, "cprof_lost_records_total", "counter", "Records that were lost while recording.");
    for (int i = 0; i < LOSS_COUNT; i++) {
        char label[64];
        snprintf(label, sizeof label, "cause=\"%s\"", keys[i]);
        sample(b, "cprof_lost_records_total", label, (double)sum.n[i]);
    }
}

static void put_flight(struct buf *b)
{
    if (!flight_runs())
        return;
    head(b, "cprof_flight_saves_total", "counter", "Recordings that the flight recorder saved.");
    for (int i = 0; i < FLIGHT_CAUSES; i++) {
        char label[64];
        snprintf(label, sizeof label, "cause=\"%s\"", flight_cause_name((enum flight_cause)i));
        sample(b, "cprof_flight_saves_total", label, (double)flight_saves((enum flight_cause)i));
    }
}

/* The number of the namespace in which this process has its number; 0: unknown. */
static unsigned long namespace_now(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
}

static void put_all(struct buf *b)
{
    make_labels();
    buf_printf(b, FIRST_LINE "%ld %lu\n", (long)getpid(), namespace_now());
    head(b, "cprof_info", "gauge", "The version of cprof.");
    sample(b, "cprof_info", "version=\"" CPROF_VERSION "\"", 1);
    put_steps(b);
    put_window(b);
    put_losses(b);
    put_flight(b);
    metric(b, "cprof_recorder_cpu_seconds_total", "counter", "CPU time of cprof's own threads.",
           (double)window_cpu_ns() * 1e-9);
}

/* ---- the file ---- */

/* Whether its process does not write it any more, whoever has that process's number now. */
static bool is_old(const struct stat *st)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec - st->st_mtim.tv_sec > 3 * METRICS_S;
}

/* Whether the file at `path` may be replaced: it is the one of the last time, or one that a process
 * of this user left that is gone. Else *why. */
static bool is_ours(const char **why)
{
    struct stat st;
    char text[64];
    if (lstat(path, &st) != 0) {
        *why = strerror(errno);
        return errno == ENOENT;
    }
    *why = "there is another file of this name";
    if (written.inode)
        return file_identity_has_name(&written, path);
    if (!owner_is_trusted_file(path, &st) || st.st_nlink != 1 ||
        !read_file(path, text, sizeof text) ||
        strncmp(text, FIRST_LINE, sizeof FIRST_LINE - 1) != 0)
        return false;
    char *end;
    long pid = strtol(text + sizeof FIRST_LINE - 1, &end, 10);
    bool seen = strtoul(end, NULL, 10) == namespace_now();
    *why = "another process writes this file; {rank} in the name tells them apart";
    bool gone = pid == getpid() || (syscall(SYS_kill, pid, 0) != 0 && errno == ESRCH);
    return pid <= 0 || (seen && gone) || is_old(&st);
}

/* Writes the text to a new file beside `path` and gives it the name. 0 or errno. */
static int replace(const struct buf *b)
{
    char part[PATH_MAX];
    struct file_identity made;
    uint64_t size;
    if (snprintf(part, sizeof part, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof part)
        return ENAMETOOLONG;
    unlink(part); /* left by a killed process of this number */
    int fd = io_open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    int error = io_write_all(fd, b->data, b->len);
    if (!error && io_look(fd, &made, &size) != 0)
        error = errno;
    io_close(fd);
    if (!error && rename(part, path) != 0)
        error = errno;
    if (error)
        unlink(part);
    else
        written = made;
    return error;
}

static void write_file(void)
{
    struct buf b = {0};
    const char *why;
    if (!path[0] && !options->metrics_path(path, sizeof path)) {
        give_up("its name is too long");
        return;
    }
    if (!is_ours(&why)) {
        give_up(why);
        return;
    }
    put_all(&b);
    int error = b.failed ? ENOMEM : replace(&b);
    buf_free(&b);
    if (error)
        fail(strerror(error));
}

void metrics_pass(void)
{
    uint64_t ns = clock_monotonic_ns();
    if (!options || (written_ns && ns - written_ns < METRICS_S * (uint64_t)SECOND_NS))
        return;
    written_ns = ns;
    write_file();
}

void metrics_end(void)
{
    const char *why;
    if (options && written.inode && is_ours(&why))
        unlink(path);
    options = NULL;
}
