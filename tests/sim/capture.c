/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: work becomes nodes of a graph instead of being queued. Events carry a capture
 * to other streams and back. */
#include "tests/sim/core.h"

#include <stdlib.h>
#include <string.h>

/* One lock for all captures, because captures are rare. The tap is called outside it: only the
 * capturing threads know a graph that is being captured. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *global_captures[64];
static atomic_int n_captures;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static __thread int thread_captures;

static void drop_capture(struct capture *capture)
{
    if (capture && atomic_fetch_sub(&capture->references, 1) == 1)
        free(capture);
}

static void add_tip(CUgraphNode **tips, int *n, CUgraphNode node)
{
    for (int i = 0; i < *n; i++)
        if ((*tips)[i] == node)
            return;
    *tips = realloc(*tips, (size_t)(*n + 1) * sizeof **tips);
    if (!*tips)
        abort();
    (*tips)[(*n)++] = node;
}

static void set_tip(CUstream stream, CUgraphNode node)
{
    stream->n_tips = 0;
    add_tip(&stream->tips, &stream->n_tips, node);
}

/* The stream's capture, or NULL. Forgets a capture that was ended through another stream. */
static struct capture *live_capture(CUstream stream)
{
    struct capture *capture = stream->capture;
    if (capture && !capture->graph && !capture->broken) {
        stream->capture = NULL;
        stream->n_tips = 0;
        drop_capture(capture);
        return NULL;
    }
    return capture;
}

bool sim_captured(CUstream stream, enum node_kind kind, const struct op *op, CUresult *result)
{
    struct capture *capture = live_capture(stream);
    if (!capture)
        return false;
    *result = capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!capture->broken)
        set_tip(stream,
                sim_add_node(capture->graph, kind, op, stream->tips, (size_t)stream->n_tips));
    return true;
}

/* Captures the launch of a graph by copying its nodes. The real driver makes a child graph node. */
bool sim_captured_graph(CUstream stream, CUgraphExec exec, CUresult *result)
{
    struct capture *capture = live_capture(stream);
    if (!capture)
        return false;
    *result = capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    for (int i = 0; !capture->broken && i < exec->graph->n_nodes; i++) {
        CUgraphNode node = exec->graph->nodes[i];
        set_tip(stream, sim_add_node(capture->graph, node->kind, &node->op, stream->tips,
                                     (size_t)stream->n_tips));
    }
    return true;
}

void sim_event_forget(CUevent event)
{
    drop_capture(event->capture);
    event->capture = NULL;
    event->n_tips = 0;
}

/* Called when the stream ends. */
void sim_capture_forget(CUstream stream)
{
    drop_capture(stream->capture);
    stream->capture = NULL;
}

bool sim_capture_record(CUstream stream, CUevent event)
{
    struct capture *capture = live_capture(stream);
    sim_event_forget(event);
    if (!capture)
        return false;
    atomic_fetch_add(&capture->references, 1);
    event->capture = capture;
    for (int i = 0; i < stream->n_tips; i++)
        add_tip(&event->tips, &event->n_tips, stream->tips[i]);
    return true;
}

bool sim_capture_wait(CUstream stream, CUevent event, CUresult *result)
{
    struct capture *mine = live_capture(stream), *other = event->capture;
    *result = CUDA_SUCCESS;
    if (other && !other->graph)
        other = NULL;
    if (!other && !mine)
        return false;
    if (!other || (mine && mine != other)) {
        /* The event was recorded outside this capture. */
        *result =
            mine && other ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        if (mine)
            mine->broken = true;
        return true;
    }
    if (!mine) {
        atomic_fetch_add(&other->references, 1);
        stream->capture = other;
        stream->n_tips = 0;
    }
    for (int i = 0; i < event->n_tips; i++)
        add_tip(&stream->tips, &stream->n_tips, event->tips[i]);
    return true;
}

CUresult sim_capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
    static atomic_ullong last_id;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (live_capture(stream))
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        abort();
    capture->graph = sim_new_graph(false);
    capture->origin = stream;
    capture->mode = mode;
    capture->id = ++last_id;
    capture->thread = pthread_self();
    capture->references = 2; /* held by the stream and by this file */
    stream->capture = capture;
    stream->n_tips = 0;
    pthread_mutex_lock(&capture_lock);
    for (int i = 0; i < 64; i++)
        if (!global_captures[i]) {
            global_captures[i] = capture;
            break;
        }
    n_captures++;
    pthread_mutex_unlock(&capture_lock);
    thread_captures += mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return CUDA_SUCCESS;
}

/* Every node without a successor must be a last node of the origin. Otherwise a stream was not
 * joined. */
static bool all_joined(const struct capture *capture)
{
    CUgraph graph = capture->graph;
    bool *has_next = calloc((size_t)graph->n_nodes + 1, sizeof *has_next), joined = true;
    if (!has_next)
        abort();
    for (int i = 0; i < graph->n_nodes; i++)
        for (int k = 0; k < graph->nodes[i]->n_before; k++)
            has_next[graph->nodes[i]->before[k]->index] = true;
    for (int i = 0; i < capture->origin->n_tips; i++)
        has_next[capture->origin->tips[i]->index] = true;
    for (int i = 0; i < graph->n_nodes; i++)
        joined = joined && has_next[i];
    free(has_next);
    return joined;
}

CUresult sim_capture_end(CUstream stream, CUgraph *graph)
{
    struct capture *capture = live_capture(stream);
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = capture->broken        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : !all_joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                             : CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    for (int i = 0; i < 64; i++)
        if (global_captures[i] == capture)
            global_captures[i] = NULL;
    n_captures--;
    pthread_mutex_unlock(&capture_lock);
    thread_captures -= capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    if (result)
        sim_free_graph(capture->graph);
    else if (graph)
        *graph = capture->graph;
    if (graph && result)
        *graph = NULL;
    capture->graph = NULL;
    capture->broken = false;
    stream->capture = NULL;
    stream->n_tips = 0;
    drop_capture(capture);
    drop_capture(capture);
    return result;
}

/* A global capture forbids unsafe calls to all threads, a thread-local one to its own thread. A
 * thread in relaxed mode may make them. */
CUresult sim_capture_forbids(CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    if (stream && stream->capture && live_capture(stream)) {
        stream->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (n_captures == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || stream)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    for (int i = 0; i < 64; i++) {
        struct capture *capture = global_captures[i];
        if (!capture || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        bool mine = pthread_equal(capture->thread, pthread_self());
        bool everybody = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                         thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!mine && !everybody)
            continue;
        capture->broken = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

CUstreamCaptureMode sim_capture_exchange(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode old = thread_mode;
    thread_mode = mode;
    return old;
}
