/* SPDX-License-Identifier: Apache-2.0 */
/* The head and the trailer of a trace file, with the `cprof` object. cprof thread. */
#include "writer/window/trace_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "writer/record/record.h"
#include "writer/sums/sums.h"
#include "writer/base/base.h"
#include "writer/window/open_spans.h"
#include "writer/window/window_memory.h"
#include "writer/window/window_names.h"

#define FRAMES_FREE (256u << 10) /* bytes of stackFrames that each flush may write */
#define FRAMES_PART 4            /* bytes of events that allow one byte of frames more */

static void put_flag(struct buf *b, const char *key, bool on)
{
    if (on)
        buf_printf(b, "\"%s\": 1,\n", key);
}

void trace_head(const struct window *w, const struct window_shared *shared, struct buf *b)
{
    const struct writer_options *o = shared->options;
    struct trace_identity id = {.world_size = 1};
    if (o->identity)
        o->identity(&id);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
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
static void put_account(struct window *w, const struct window_shared *shared, struct buf *b)
{
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
    const char *path = metadata_record_path(window_end_known(w));
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
    if (w->flight) {
        buf_puts(b, "\"flight\": {\"reason\": ");
        json_string(b, w->reason ? w->reason : "", w->reason ? strlen(w->reason) : 0);
        /* the rows of small pids have other numbers */
        buf_printf(b, ", \"pid\": %d, \"dropped\": %llu", (int)getpid(),
                   (unsigned long long)w->dropped);
        if (w->threads)
            buf_put(b, w->threads->data, w->threads->len);
        buf_puts(b, "}, ");
    }
    window_memory_account(w, b);
    window_states_account(w, b);
    window_flops_account(w, shared, b);
    if (w->end != UINT64_MAX)
        process_use_account(w->use, shared->options, b);
    put_losses(b, w);
    buf_printf(b,
               ", \"hook_ns\": %.0f, \"writer_cpu_ns\": %llu, \"handlers_ns\": %llu, \"bytes\": "
               "%llu, \"notes\": [%s",
               (double)w->records * shared->record_ns,
               (unsigned long long)(window_cpu_ns() - w->cpu_before_ns),
               (unsigned long long)(writer_listener_ns() - w->handlers_before_ns),
               (unsigned long long)(w->sink ? w->sink->bytes_written : 0), shared->notes_json);
    const char *gap = metadata_gap(w->start, window_end_known(w));
    if (gap) {
        buf_puts(b, *shared->notes_json ? ", " : "");
        json_string(b, gap, strlen(gap));
    }
    buf_puts(b, "]}");
}

/* The frames of the stacks. Each flush replaces the trailer. So the open file has frames that are
 * larger than FRAMES_FREE in some flushes only: as soon as the flushes since the last time allow so
 * many bytes. Flushes without new events count, so that an idle program's file gets them, too. The
 * complete file always has them. */
static void put_frames(struct window *w, bool complete, struct buf *b)
{
    w->frames_allowed += FRAMES_FREE + w->body.len / FRAMES_PART;
    if (!complete && w->stacks.bytes > w->frames_allowed)
        return;
    w->frames_allowed = 0;
    stacks_frames(b, &w->stacks);
}

void trace_trailer(struct window *w, const struct window_shared *shared, const char *name,
                   struct buf *b)
{
    bool complete = name != w->part_path;
    if (!w->settled)
        window_read_open(w, shared);
    buf_reset(b);
    buf_put(b, w->open.data, w->open.len);
    int64_t end = w->end == UINT64_MAX ? -1 : clock_wall_ns(w->end) - w->base_ns;
    flop_stats_counters(w->flops, end, shared->options, shared->pid, b);
    window_name_threads_again(w, shared, b);
    window_name_process(shared, complete, b);
    if (b->len >= 2)
        b->len -= 2; /* no comma after the last event */
    buf_puts(b, "\n],\n");
    buf_puts(b, shared->user_json);
    put_frames(w, complete, b);
    put_account(w, shared, b);
    buf_puts(b, ",\n\"traceName\": ");
    json_string(b, name, strlen(name));
    buf_puts(b, "\n}\n");
}
