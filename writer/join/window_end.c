/* SPDX-License-Identifier: Apache-2.0 */
/* The last rows and warnings of a window's GPU side: ranges of the user on each stream, launches
 * without kernels, silent graphs. */
#include "writer/join/window_end.h"

#include "writer/join/gpu_place.h"
#include "writer/join/ranges.h"
#include "writer/json/json.h"
#include "writer/sums/sums.h"

struct ending {
    const struct join_windows *in;
    struct window *w;
};

static void put_annotation(const struct range_extent *e, void *arg)
{
    const struct ending *s = arg;
    if (!window_room(s->w, s->in->shared))
        return;
    const struct gpu_record time = {.start = e->start, .end = e->end};
    struct json_place at;
    if (!gpu_place(s->w, s->in->shared, LANE_ANNOTATION, e->device, e->stream, &time, &at))
        return;
    char room[RANGE_NAME_ROOM]; /* no trace viewer expects steps in GPU rows */
    struct text name = json_range_name((struct text){e->name, e->name_len}, room);
    json_gpu_annotation(&s->w->body, name.at, name.len, &at, e->id);
    summary_annotation(window_summary(s->w, s->in->shared), e->name, e->name_len, &at);
    s->w->events++;
}

/* A kernel that CUPTI dropped or could not time is counted as that. Only missing kernels without
 * such a reason count as launches without a kernel. */
static void count_missing(struct window *w, uint64_t missing)
{
    const uint64_t *lost = w->lost.n;
    uint64_t known = lost[LOSS_GPU_DROPPED] + lost[LOSS_GPU_UNTIMED] + lost[LOSS_GPU_UNFINISHED] +
                     lost[LOSS_GPU_INVALID] + lost[LOSS_GPU_TABLE];
    if (missing > known)
        w->lost.n[LOSS_GPU_NO_KERNEL] += missing - known;
}

/* A graph of host functions has no work on the GPU, so this is no loss. But CUPTI also reports
 * nothing of a graph made before CUPTI began. */
static void warn_silent_graphs(const struct window *w)
{
    if (w->gpu.graphs == 0 || w->gpu.graphs_silent < w->gpu.graphs || !once_here())
        return;
    log_warn("CUPTI reports no work of %llu launches of CUDA graphs: the kernels of these graphs "
             "are missing",
             (unsigned long long)w->gpu.graphs);
    writer_note("CUPTI reported no work of launches of CUDA graphs: the kernels of these graphs "
                "are missing");
}

void window_end_count(struct window *w, uint64_t missing)
{
    count_missing(w, missing);
    warn_silent_graphs(w);
}

void window_end_annotate(const struct join_windows *in, struct window *w)
{
    struct ending ending = {in, w};
    ranges_take(w->serial, put_annotation, &ending);
}
