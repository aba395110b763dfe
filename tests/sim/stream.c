/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as the callers see them: queues of items, marks (points in a stream's order, for
 * events), and waiting. worker.c takes items off the queue.
 *
 * Work in the legacy default stream first waits for all blocking streams of its context. Work in
 * a blocking stream first waits for the legacy stream. Each wait is an item on the newest mark
 * of the other stream. */
#include "tests/sim/core.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_ullong last_event_sync;
static __thread CUstream per_thread_stream;

CUstream sim_new_stream(CUcontext context, unsigned flags, int priority)
{
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->wake, &monotonic);
    pthread_cond_init(&stream->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->references = 1;
    stream->notify_at = UINT64_MAX;
    pthread_mutex_lock(&context->lock);
    stream->id = ++context->last_stream;
    stream->next = context->streams;
    context->streams = stream;
    pthread_mutex_unlock(&context->lock);
    sim_add(FIGURE_STREAMS, 1);
    return stream;
}

static void drop_stream(CUstream stream)
{
    if (atomic_fetch_sub(&stream->references, 1) != 1)
        return;
    while (stream->spare) {
        struct item *next = stream->spare->next;
        free(stream->spare);
        stream->spare = next;
    }
    free(stream->tips);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->wake);
    pthread_cond_destroy(&stream->done);
    free(stream);
}

/* Drops the marks that a stream keeps. They refer to streams, also to their own, so nothing
 * would ever be freed. */
static void forget_marks(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    struct mark *tail = stream->tail_mark, *seen = stream->legacy_seen;
    stream->tail_mark = stream->legacy_seen = NULL;
    pthread_mutex_unlock(&stream->lock);
    sim_drop_mark(tail);
    sim_drop_mark(seen);
}

void sim_end_stream(CUstream stream)
{
    CUcontext context = stream->context;
    pthread_mutex_lock(&context->lock);
    CUstream *link = &context->streams;
    while (*link && *link != stream)
        link = &(*link)->next;
    if (*link)
        *link = stream->next;
    pthread_mutex_unlock(&context->lock);
    forget_marks(stream);
    sim_capture_forget(stream);
    if (per_thread_stream == stream)
        per_thread_stream = NULL;
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&stream->lock);
    /* The thread holds its own reference and finishes the queued work. */
    drop_stream(stream);
}

CUstream sim_stream(CUstream handle, bool per_thread)
{
    CUcontext context = sim_context();
    if (!handle && per_thread)
        handle = CU_STREAM_PER_THREAD;
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD)
        return handle;
    if (!context)
        return NULL;
    if (handle != CU_STREAM_PER_THREAD)
        return context->legacy;
    /* One stream per thread, for the context used last. Enough for programs whose threads keep
     * to one device. */
    if (!per_thread_stream || per_thread_stream->context != context)
        per_thread_stream = sim_new_stream(context, CU_STREAM_DEFAULT, 0);
    return per_thread_stream;
}

/* ---- queueing ---- */

static void start_worker(CUstream stream)
{
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, 256 * 1024);
    atomic_fetch_add(&stream->references, 1);
    stream->started = true;
    if (pthread_create(&thread, &detached, sim_worker, stream) != 0)
        abort();
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Waits until `sequence` is done and wakes the stream's thread from its nap. The caller holds
 * the lock. */
static void wait_locked(CUstream stream, uint64_t sequence)
{
    while (stream->finished < sequence) {
        if (stream->notify_at > sequence)
            stream->notify_at = sequence;
        /* The worker stores finished and then reads notify_at. This thread does the reverse. */
        if (stream->finished >= sequence)
            break;
        pthread_cond_signal(&stream->wake);
        pthread_cond_wait(&stream->done, &stream->lock);
    }
}

struct item *sim_item(CUstream stream, enum item_kind kind)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->queued - stream->finished >= QUEUE_LENGTH)
        wait_locked(stream, stream->queued - QUEUE_LENGTH / 2);
    struct item *item = stream->spare;
    if (item) {
        stream->spare = item->next;
        stream->n_spare--;
    }
    pthread_mutex_unlock(&stream->lock);
    if (!item && !(item = malloc(sizeof *item)))
        abort();
    memset(item, 0, offsetof(struct item, op));
    item->kind = kind;
    return item;
}

static void push(CUstream stream, struct item *item)
{
    item->next = NULL;
    item->queued_ns = sim_now();
    pthread_mutex_lock(&stream->lock);
    item->sequence = ++stream->queued;
    if (item->kind == ITEM_MARK)
        item->mark->sequence = item->sequence;
    if (stream->tail)
        stream->tail->next = item;
    else
        stream->head = item;
    stream->tail = item;
    if (!stream->started)
        start_worker(stream);
    else if (stream->idle)
        pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&stream->lock);
}

struct mark *sim_new_mark(CUstream stream)
{
    struct mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        abort();
    mark->references = 1;
    mark->stream = stream;
    atomic_fetch_add(&stream->references, 1);
    mark->event_sync = ++last_event_sync;
    return mark;
}

void sim_drop_mark(struct mark *mark)
{
    if (!mark || atomic_fetch_sub(&mark->references, 1) != 1)
        return;
    drop_stream(mark->stream);
    free(mark);
}

static struct mark *keep(struct mark *mark)
{
    atomic_fetch_add(&mark->references, 1);
    return mark;
}

static void push_mark(CUstream stream, struct mark *mark)
{
    struct item *item = sim_item(stream, ITEM_MARK);
    item->mark = keep(mark);
    push(stream, item);
    pthread_mutex_lock(&stream->lock);
    struct mark *old = stream->tail_mark;
    stream->tail_mark = keep(mark);
    pthread_mutex_unlock(&stream->lock);
    sim_drop_mark(old);
}

static void push_wait(CUstream stream, struct mark *mark)
{
    struct item *item = sim_item(stream, ITEM_WAIT);
    item->mark = keep(mark);
    push(stream, item);
}

/* A mark behind all the stream's work. NULL: no work is unfinished. */
static struct mark *mark_at_tail(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    bool empty = stream->queued == stream->finished;
    struct mark *mark = stream->tail_mark;
    mark = !empty && mark && mark->sequence == stream->queued ? keep(mark) : NULL;
    pthread_mutex_unlock(&stream->lock);
    if (empty || mark)
        return mark;
    mark = sim_new_mark(stream);
    push_mark(stream, mark);
    return mark;
}

static void wait_for_blocking_streams(CUstream legacy)
{
    CUcontext context = legacy->context;
    CUstream busy[256];
    int n = 0;
    pthread_mutex_lock(&context->lock);
    for (CUstream s = context->streams; s && n < 256; s = s->next)
        if (s != legacy && !(s->flags & CU_STREAM_NON_BLOCKING) && !s->capture &&
            atomic_load(&s->finished) != s->queued) {
            atomic_fetch_add(&s->references, 1);
            busy[n++] = s;
        }
    pthread_mutex_unlock(&context->lock);
    for (int i = 0; i < n; i++) {
        struct mark *mark = mark_at_tail(busy[i]);
        if (mark)
            push_wait(legacy, mark);
        sim_drop_mark(mark);
        drop_stream(busy[i]);
    }
}

static void wait_for_legacy_stream(CUstream stream)
{
    CUstream legacy = stream->context->legacy;
    if (!legacy || legacy == stream || atomic_load(&legacy->finished) == legacy->queued)
        return;
    struct mark *mark = mark_at_tail(legacy);
    if (mark && mark != stream->legacy_seen) {
        push_wait(stream, mark);
        pthread_mutex_lock(&stream->lock);
        struct mark *old = stream->legacy_seen;
        stream->legacy_seen = keep(mark);
        pthread_mutex_unlock(&stream->lock);
        sim_drop_mark(old);
    }
    sim_drop_mark(mark);
}

static void obey_default_stream(CUstream stream)
{
    if (stream->legacy)
        wait_for_blocking_streams(stream);
    else if (!(stream->flags & CU_STREAM_NON_BLOCKING))
        wait_for_legacy_stream(stream);
}

void sim_queue(CUstream stream, struct item *item)
{
    obey_default_stream(stream);
    push(stream, item);
}

struct mark *sim_queue_mark(CUstream stream, struct mark *mark)
{
    obey_default_stream(stream);
    push_mark(stream, mark);
    return mark;
}

void sim_queue_wait(CUstream stream, struct mark *mark)
{
    obey_default_stream(stream);
    push_wait(stream, mark);
}

/* ---- waiting ---- */

bool sim_stream_done(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    bool done = stream->finished == stream->queued;
    if (!done)
        pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&stream->lock);
    return done;
}

void sim_wait_stream(CUstream stream)
{
    pthread_mutex_lock(&stream->lock);
    wait_locked(stream, stream->queued);
    pthread_mutex_unlock(&stream->lock);
}

bool sim_mark_done(const struct mark *mark)
{
    return atomic_load(&mark->stream->finished) >= mark->sequence;
}

void sim_wait_mark(struct mark *mark)
{
    pthread_mutex_lock(&mark->stream->lock);
    wait_locked(mark->stream, mark->sequence);
    pthread_mutex_unlock(&mark->stream->lock);
}

void sim_wait_context(CUcontext context)
{
    CUstream busy[1024];
    int n = 0;
    pthread_mutex_lock(&context->lock);
    for (CUstream s = context->streams; s && n < 1024; s = s->next)
        if (atomic_load(&s->finished) != s->queued) {
            atomic_fetch_add(&s->references, 1);
            busy[n++] = s;
        }
    pthread_mutex_unlock(&context->lock);
    for (int i = 0; i < n; i++) {
        sim_wait_stream(busy[i]);
        drop_stream(busy[i]);
    }
}

/* A query of the present moment, with the correlation of the call in progress. */
static struct sim_wait wait_of(int type, CUcontext context, CUstream stream, CUevent event,
                               uint64_t event_sync)
{
    uint64_t now = sim_now();
    return (struct sim_wait){
        .type = type,
        .correlation = sim_correlation(),
        .device = context ? (uint32_t)context->device : NOT_AN_ID,
        .context = context ? context->id : NOT_AN_ID,
        .stream = stream ? stream->id : NOT_AN_ID,
        .event = event ? event->id : NOT_AN_ID,
        .event_sync = event_sync,
        .start_ns = now,
        .end_ns = now,
    };
}

void sim_report_wait(int type, CUcontext context, CUstream stream, CUevent event,
                     uint64_t event_sync, uint64_t start_ns)
{
    struct sim_wait wait = wait_of(type, context, stream, event, event_sync);
    wait.start_ns = start_ns;
    sim_add(FIGURE_SYNC + (unsigned)type, 1);
    sim_tap()->waited(&wait);
}

/* "CUPTI provides CUDA event query and stream query records via
 * CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" (cupti_activity.h, at cuptiActivityEnableAllSyncRecords).
 * The header does not give the type; the simulation uses the wait's. */
void sim_report_query(int type, CUcontext context, CUstream stream, CUevent event,
                      uint64_t event_sync, CUresult result)
{
    struct sim_wait wait = wait_of(type, context, stream, event, event_sync);
    wait.query = true;
    wait.result = (int)result;
    sim_tap()->waited(&wait);
}

void sim_end_worker(CUstream stream)
{
    forget_marks(stream);
    drop_stream(stream);
}
