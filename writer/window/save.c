/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, flushes and names the file of a window. */
#include "writer/window/save.h"

#include <string.h>

#include "writer/window/report.h"
#include "writer/sums/sums.h"

static bool disk_low(const char *path)
{
    if (!sink_disk_low(path))
        return false;
    log_error("%s: the file system is nearly full; recording is off, the program goes on", path);
    return true;
}

/* Checks, before a window makes its file, that the name and the disk are free. A held window has a
 * temporary file, which an earlier run cannot be in the way of. */
static bool may_make_file(const struct window *w, const struct writer_options *options)
{
    char path[PATH_MAX];
    struct train_time time = {.batch = w->first_step};
    return (w->held || !earlier_run_in_the_way(options)) &&
           options->trace_path(&time, path, sizeof path) && !disk_low(path);
}

void save_drop(struct window *w)
{
    /* a lower bound: recording has stopped */
    report_lost_more(w->lost_total + w->events - w->flushed);
    w->lost_total = 0;
    w->flushed = w->events;
}

/* Counts unwritten events as lost, and reports the error. */
static void log_failed(struct window *w, const char *path, int error)
{
    save_drop(w);
    log_error("%s: cannot write the trace: %s; recording is off, the program goes on",
              w->part_path[0] ? w->part_path : path, strerror(error));
}

void save_none(const struct window *w)
{
    uint64_t lost = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        lost += w->at_end.n[i] - w->before.n[i] + w->lost.n[i];
    report.lost += lost;
    if (lost && once_here())
        log_warn("a window leaves no trace: all %llu records of it were lost",
                 (unsigned long long)lost);
}

bool save_flush(struct window *w, const struct window_shared *shared)
{
    if (!w->sink && !may_make_file(w, shared->options))
        return false;
    int error = window_flush(w, shared);
    if (error)
        log_failed(w, "trace", error);
    return !error && !disk_low(w->part_path);
}

static int64_t steps_ns(const struct window *w)
{
    return w->last_step < w->first_step ? 0 : clock_wall_ns(w->steps_end) - clock_wall_ns(w->start);
}

static void notify_saved(const struct window *w, const char *path,
                         const struct file_identity *summary, const struct writer_options *options)
{
    struct saved_trace trace = {.path = path,
                                .file = w->sink->file,
                                .summary = *summary,
                                .first_step = w->first_step,
                                .last_step = w->last_step,
                                .time = w->time,
                                .window = w->serial,
                                .began_ns = clock_wall_ns(w->start),
                                .steps_ns = steps_ns(w),
                                .events = w->events,
                                .lost = w->lost_total,
                                .partial = w->partial,
                                .markless = w->markless};
    if (options->trace_ready)
        options->trace_ready(&trace);
}

static void log_unmarked(const struct window *w, const struct writer_options *options)
{
    static const char how[] = "cprof_step(), an optimizer of Python, or "
                              "CPROF_STEP=dataloader|forward|optimizer:GLOB|nvtx:GLOB|itt:GLOB|"
                              "symbol:NAME";
    if (w->lost.n[LOSS_HOLD_FULL])
        log_warn("no step was marked: the trace holds only the end of the run, up to %llu MB; "
                 "CPROF_SCHEDULE_SCOPE=none records the whole run; steps are marked by %s",
                 (unsigned long long)options->held_bytes / 1000000, how);
    else
        log_info("no step was marked: the trace holds the whole run; steps are marked by %s", how);
}

static void put_on_one_line(struct buf *b, const char *json)
{
    for (; *json; json++)
        buf_put(b, *json == '\n' ? " " : json, 1);
}

static struct file_identity save_summary(struct window *w, const struct window_shared *shared,
                                         const char *path)
{
    const struct writer_options *o = shared->options;
    struct trace_identity id = {.world_size = 1};
    char host[256] = "";
    struct buf about = {0};
    struct file_identity saved = {.inode = 0};
    if (!w->summary)
        return saved;
    if (o->identity)
        o->identity(&id);
    gethostname(host, sizeof host - 1);
    buf_printf(&about,
               ", \"rank\": %lld, \"world_size\": %lld, \"host_name\": ", (long long)id.rank,
               (long long)id.world_size);
    json_string(&about, host, strlen(host));
    buf_printf(&about,
               ", \"baseTimeNanoseconds\": %lld, \"deviceProperties\": ", (long long)w->base_ns);
    put_on_one_line(&about, o->gpu ? o->gpu->devices_json() : "[]");
    buf_printf(&about, ", \"lost\": %llu, \"profile_memory\": %s, ",
               (unsigned long long)w->lost_total, o->profile_memory ? "true" : "false");
    window_memory_account(w, &about);
    window_flops_account(w, shared, &about);
    if (w->end != UINT64_MAX)
        process_use_account(w->use, o, &about);
    about.len -= 2; /* no comma at the end */
    saved = summary_save(w->summary, path, &about);
    buf_free(&about);
    return saved;
}

bool save_finish(struct window *w, const struct window_shared *shared)
{
    char path[PATH_MAX] = "";
    if (!w->sink && !may_make_file(w, shared->options))
        return false;
    bool in_the_way = w->markless && w->sink && earlier_run_in_the_way(shared->options);
    if (in_the_way) {
        window_discard(w);
        return false;
    }
    int error = window_finish(w, shared, path);
    if (error) {
        log_failed(w, path, error);
        return false;
    }
    report_trace(path);
    report.events += w->events;
    report.lost += w->lost_total;
    struct file_identity summary = {.inode = 0};
    if (w->merged.files == 0) /* it would lack the rows of other tools */
        summary = save_summary(w, shared, path);
    notify_saved(w, path, &summary, shared->options);
    if (w->markless && !w->region)
        log_unmarked(w, shared->options);
    return true;
}
