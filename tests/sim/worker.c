/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's thread. Its clock is the end of the previous work: work starts when it was queued
 * or at that end, whichever is later, and lasts as long as the program asked. The thread only
 * must not report work before its end has passed. So it takes all queued items at once and naps
 * while nobody waits: a million launches cost few wake-ups. */
#include "tests/sim/core.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { NAP_NS = 2000000, SHORT_WAIT_NS = 20000 };

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* Short waits yield the processor instead of sleeping: a timer takes longer than most kernels. */
static void sleep_until(uint64_t ns)
{
    uint64_t now;
    while ((now = sim_now()) < ns) {
        struct timespec rest = to_timespec(ns - now);
        if (ns - now > SHORT_WAIT_NS)
            nanosleep(&rest, NULL);
        else
            sched_yield();
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void count_done(const struct sim_work *work)
{
    static const enum sim_figure figures[] = {
        [SIM_KERNEL] = FIGURE_DONE_KERNELS,     [SIM_COPY] = FIGURE_DONE_COPIES,
        [SIM_COPY_PEER] = FIGURE_DONE_COPIES,   [SIM_FILL] = FIGURE_DONE_FILLS,
        [SIM_GRAPH_WHOLE] = FIGURE_DONE_GRAPHS,
    };
    sim_add(figures[work->kind], 1);
}

/* Runs one op that may start at `start`. Returns the op's end after that time has passed. */
static uint64_t run_op(struct op *op, uint64_t start)
{
    struct sim_work *work = &op->work;
    if (op->action.run)
        op->action.run(&op->action);
    uint64_t end = start + work->duration_ns;
    sleep_until(end);
    work->start_ns = start + (uint64_t)sim_skew_ns;
    work->end_ns = end + (uint64_t)sim_skew_ns;
    count_done(work);
    sim_tap()->done(work);
    return end;
}

static void run_work(CUstream stream, struct item *item)
{
    uint64_t start = later(item->queued_ns, stream->busy_until);
    struct sim_work *work = &item->op.work;
    /* Programmatic launch: the next kernel starts at half of the previous one. */
    if (sim_overlap && work->kind == SIM_KERNEL && stream->last_start)
        start = later(item->queued_ns,
                      stream->busy_until - (stream->busy_until - stream->last_start) / 2);
    stream->last_start = start;
    stream->busy_until = later(stream->busy_until, run_op(&item->op, start));
}

static void run_host(CUstream stream, struct item *item)
{
    stream->busy_until = later(item->queued_ns, stream->busy_until);
    sleep_until(stream->busy_until);
    item->op.action.host(item->op.action.user);
    stream->busy_until = later(stream->busy_until, sim_now());
}

static void run_mark(CUstream stream, struct item *item)
{
    struct mark *mark = item->mark;
    mark->time_ns = later(item->queued_ns, stream->busy_until);
    if (!mark->event)
        return;
    struct sim_event_record record = {
        .correlation = mark->correlation,
        .device = (uint32_t)stream->context->device,
        .context = stream->context->id,
        .stream = stream->id,
        .event = mark->event,
        .event_sync = mark->event_sync,
        .time_ns = mark->time_ns + (uint64_t)sim_skew_ns,
    };
    sim_tap()->recorded(&record);
}

/* Nodes stand behind those they depend on. Each starts when those are over. */
static void run_graph(CUstream stream, struct item *item)
{
    struct graph_run *run = item->run;
    uint64_t start = later(item->queued_ns, stream->busy_until), end = start;
    for (int i = 0; i < run->n; i++) {
        CUgraphNode node = run->exec->graph->nodes[i];
        uint64_t begin = start;
        for (int k = 0; k < node->n_before; k++)
            begin = later(begin, run->ends[node->before[k]->index]);
        run->ends[i] = begin;
        if (node->kind == NODE_HOST) {
            sleep_until(begin);
            run->ops[i].action.host(run->ops[i].action.user);
            run->ends[i] = later(begin, sim_now());
        } else if (node->kind != NODE_EMPTY) {
            run->ends[i] = run_op(&run->ops[i], begin);
        }
        end = later(end, run->ends[i]);
    }
    stream->busy_until = end;
    run->whole.start_ns = start + (uint64_t)sim_skew_ns;
    run->whole.end_ns = end + (uint64_t)sim_skew_ns;
    count_done(&run->whole);
    sim_tap()->done(&run->whole);
    sim_free_run(run);
}

static void run_item(CUstream stream, struct item *item)
{
    switch (item->kind) {
    case ITEM_WORK:
        run_work(stream, item);
        break;
    case ITEM_HOST:
        run_host(stream, item);
        break;
    case ITEM_MARK:
        run_mark(stream, item);
        break;
    case ITEM_WAIT:
        sim_wait_mark(item->mark);
        stream->busy_until = later(stream->busy_until, later(item->queued_ns, item->mark->time_ns));
        break;
    case ITEM_GRAPH:
        run_graph(stream, item);
        break;
    case ITEM_RELEASE:
        free(item->memory);
        break;
    }
    atomic_store(&stream->finished, item->sequence);
    if (item->sequence >= stream->notify_at) {
        pthread_mutex_lock(&stream->lock);
        stream->notify_at = UINT64_MAX;
        pthread_cond_broadcast(&stream->done);
        pthread_mutex_unlock(&stream->lock);
    }
    /* After the notification: a thread that waits for this mark holds a reference. */
    if (item->mark)
        sim_drop_mark(item->mark);
}

static void give_back(CUstream stream, struct item *first, struct item *last, int n)
{
    if (stream->n_spare < QUEUE_LENGTH) {
        last->next = stream->spare;
        stream->spare = first;
        stream->n_spare += n;
        return;
    }
    last->next = NULL;
    while (first) {
        struct item *next = first->next;
        free(first);
        first = next;
    }
}

/* Waits for work; the caller holds the lock. First naps, so that queueing needs no signal.
 * False: the stream ends. */
static bool wait_for_work(CUstream stream)
{
    if (!stream->head && !stream->closing) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now); /* the condition's clock */
        uint64_t end = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + NAP_NS;
        struct timespec nap_end = to_timespec(end);
        pthread_cond_timedwait(&stream->wake, &stream->lock, &nap_end);
    }
    while (!stream->head && !stream->closing) {
        stream->idle = true;
        pthread_cond_wait(&stream->wake, &stream->lock);
        stream->idle = false;
    }
    return stream->head != NULL;
}

void *sim_worker(void *given)
{
    CUstream stream = given;
    prctl(PR_SET_NAME, "sim-stream");
    prctl(PR_SET_TIMERSLACK, 1000ul);
    pthread_mutex_lock(&stream->lock);
    while (stream->head || wait_for_work(stream)) {
        struct item *first = stream->head, *last = stream->tail;
        stream->head = stream->tail = NULL;
        pthread_mutex_unlock(&stream->lock);
        int n = 0;
        for (struct item *item = first; item; item = item->next, n++)
            run_item(stream, item);
        pthread_mutex_lock(&stream->lock);
        give_back(stream, first, last, n);
    }
    pthread_mutex_unlock(&stream->lock);
    sim_end_worker(stream);
    return NULL;
}
