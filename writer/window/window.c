/* SPDX-License-Identifier: Apache-2.0 */
/* What a window takes: its limits, its events, its steps and its sums. cprof thread. */
#include "writer/window/window.h"

#include <stdio.h>
#include <stdlib.h>

#include "writer/record/record.h"
#include "writer/sums/sums.h"
#include "writer/file/file.h"
#include "writer/base/base.h"
#include "writer/window/window_memory.h"
#include "writer/window/window_names.h"

#define STEP_TID           4194305u /* above the kernel's largest tid: no thread has it */
#define GPU_PIDS           4096u    /* viewers take smaller pids for GPU ordinals */
#define PID_SHIFT          1000000u
#define HELD_SUMMARY_BYTES (2u << 20) /* memory for the summary of a held window */
/* bytes of backward operators that wait for other threads' forward records; beyond that, arrows are
 * drawn at once from what is known */
#define BACKWARD_MOST (64u << 20)

uint64_t window_cpu_ns(void)
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
    window_rename_rows(w);
    w->from = w->warm_from = from;
    w->start = start;
    w->end = UINT64_MAX;
    w->first_step = first_step;
    w->last_step = first_step - 1;
    w->base_ns = clock_base_ns(clock_wall_ns(from));
    w->cpu_before_ns = window_cpu_ns();
    w->handlers_before_ns = writer_listener_ns();
    w->use[USE_START] = process_use_now((uint64_t)clock_wall_ns(start));
    w->before = *before;
    return w;
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

uint64_t window_end_known(const struct window *w)
{
    return w->end != UINT64_MAX ? w->end : w->latest > w->start ? w->latest : w->start;
}

void window_flops_account(struct window *w, const struct window_shared *shared, struct buf *b)
{
    struct energy_use spent[GPU_STATES];
    window_states_energy(w, spent);
    flop_stats_account(w->flops, clock_wall_ns(window_end_known(w)) - clock_wall_ns(w->start),
                       spent, shared->options, b);
}

unsigned window_flop_rates(const struct window *w, const struct writer_options *options,
                           struct flop_rates *out, unsigned most)
{
    return flop_stats_rates(w->flops, clock_wall_ns(window_end_known(w)) - clock_wall_ns(w->start),
                            options, out, most);
}

struct summary *window_summary(struct window *w, const struct window_shared *shared)
{
    if (!w->summary_tried) {
        w->summary_tried = true;
        uint64_t most = shared->options->summary_bytes;
        w->summary = summary_make(w->held && most > HELD_SUMMARY_BYTES ? HELD_SUMMARY_BYTES : most);
    }
    return w->summary;
}

void window_add(struct window *w, const struct window_shared *shared,
                const struct record_owner *owner, const struct record *r)
{
    if (w->settled && window_left_open(&w->open_ids, r->id))
        return; /* it ended after settlement: the file has it as unfinished */
    if (!window_room(w, shared))
        return;
    window_name_thread(w, shared, owner->tid, window_named(w, owner->log));
    if (r->category == CAT_MODULE)
        window_name_modules(w, shared, owner);
    struct json_place at = window_place(w, shared, window_row(r, owner->tid), r->start, r->end);
    flop_stats_span(window_flops(w, shared), owner->log, r, &at);
    stacks_use(&w->stacks, stacks_of(r));
    char room[RANGE_NAME_ROOM];
    json_record(&w->body, r, window_shown_name(w, r, room), &at, shared->options->dtype_names,
                shared->options->n_dtypes);
    if (r->start >= w->start) /* the summary leaves out markers of warmup steps */
        summary_record(window_summary(w, shared), r, &at);
    if (w->flight)
        ; /* arrows and holders of memory are in windows only */
    else if (r->kind == REC_SPAN)
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
    if (w->steps_naming != w->naming) {
        w->steps_naming = w->naming;
        json_meta_text(&w->body, "thread_name", shared->pid, STEP_TID, "name", "steps", 5);
        json_meta_number(&w->body, "thread_sort_index", shared->pid, STEP_TID, 0);
    }
    if (!has_step(w))
        w->use[USE_FIRST] = process_use_now((uint64_t)clock_wall_ns(end));
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
    summary_step(window_summary(w, shared), step, name, &at, thread);
    window_states_step(w, step, start);
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

uint64_t window_bytes(const struct window *w)
{
    return sizeof *w + w->body.cap + w->backward.cap + w->open.cap + w->open_ids.cap +
           summary_bytes(w->summary) + memory_owners_bytes(w->memory) + lanes_bytes(w->gpu.lanes) +
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
    summary_free(w->summary);
    buf_free(&w->body);
    buf_free(&w->backward);
    buf_free(&w->open);
    buf_free(&w->open_ids);
    stacks_used_free(&w->stacks);
    free(w);
}
