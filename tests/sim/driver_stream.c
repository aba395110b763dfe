/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API: streams, events, capture, graphs. */
#include "tests/sim/core.h"

#include <stdlib.h>
#include <string.h>

/* ---- streams ---- */

static CUresult create_stream(CUstream *stream, unsigned flags, int priority)
{
    CUcontext context = sim_context();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *stream = sim_new_stream(context, flags, priority);
    if (!*stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_resource_info info = {
        .device = (uint32_t)context->device, .context = context->id, .stream = (*stream)->id};
    sim_tap()->resource(SIM_STREAM_CREATED, &info);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER(cuStreamCreate);
    LEAVE(create_stream(stream, flags, 0));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    ENTER(cuStreamCreateWithPriority);
    LEAVE(create_stream(stream, flags, priority));
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER(cuStreamDestroy_v2);
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        LEAVE(CUDA_ERROR_INVALID_HANDLE);
    sim_end_stream(stream);
    LEAVE(CUDA_SUCCESS);
}

static CUresult synchronize(CUstream stream)
{
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = sim_capture_forbids(stream);
    if (result)
        return result;
    uint64_t start = sim_now();
    /* The legacy stream's work includes the waits for all other streams. */
    if (stream->legacy) {
        struct mark *mark = sim_new_mark(stream);
        sim_wait_mark(sim_queue_mark(stream, mark));
        sim_drop_mark(mark);
    } else {
        sim_wait_stream(stream);
    }
    sim_report_wait(3, stream->context, stream, NULL, 0, start);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER_Z(cuStreamSynchronize);
    LEAVE(synchronize(STREAM(stream)));
}
TWIN(cuStreamSynchronize, _ptsz);

CUresult cuStreamQuery(CUstream stream)
{
    ENTER_Z(cuStreamQuery);
    CUstream real = STREAM(stream);
    CUresult result = real ? sim_capture_forbids(real) : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && !sim_stream_done(real))
        result = CUDA_ERROR_NOT_READY;
    if (!result || result == CUDA_ERROR_NOT_READY)
        sim_report_query(3, real->context, real, NULL, 0, result);
    LEAVE(result);
}
TWIN(cuStreamQuery, _ptsz);

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    ENTER_Z(cuStreamGetPriority);
    CUstream real = STREAM(stream);
    *priority = real ? real->priority : 0;
    LEAVE(CUDA_SUCCESS);
}
TWIN(cuStreamGetPriority, _ptsz);

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags)
{
    ENTER_Z(cuStreamGetFlags);
    CUstream real = STREAM(stream);
    *flags = real ? real->flags : 0;
    LEAVE(CUDA_SUCCESS);
}
TWIN(cuStreamGetFlags, _ptsz);

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    ENTER_Z(cuStreamGetId);
    CUstream real = STREAM(stream);
    *id = real ? real->id : 0;
    LEAVE(CUDA_SUCCESS);
}
TWIN(cuStreamGetId, _ptsz);

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    ENTER_Z(cuStreamGetCtx);
    CUstream real = STREAM(stream);
    *context = real ? real->context : NULL;
    LEAVE(real ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}
TWIN(cuStreamGetCtx, _ptsz);

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    ENTER_Z(cuStreamGetDevice);
    CUstream real = STREAM(stream);
    *device = real ? real->context->device : -1;
    LEAVE(real ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}
TWIN(cuStreamGetDevice, _ptsz);

/* ---- events ---- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER(cuEventCreate);
    CUcontext context = sim_context();
    if (!context)
        LEAVE(CUDA_ERROR_INVALID_CONTEXT);
    CUevent made = calloc(1, sizeof *made);
    if (!made)
        LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
    pthread_mutex_init(&made->lock, NULL);
    made->context = context;
    made->id = ++context->last_event;
    made->flags = flags;
    *event = made;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER(cuEventDestroy_v2);
    if (!event)
        LEAVE(CUDA_ERROR_INVALID_HANDLE);
    sim_drop_mark(event->mark);
    sim_event_forget(event);
    free(event->tips);
    pthread_mutex_destroy(&event->lock);
    free(event);
    LEAVE(CUDA_SUCCESS);
}

static CUresult record(CUevent event, CUstream stream)
{
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (event->context->device != stream->context->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_record(stream, event))
        return CUDA_SUCCESS;
    struct mark *mark = sim_new_mark(stream);
    mark->event = event->id;
    mark->correlation = sim_correlation();
    sim_queue_mark(stream, mark);
    pthread_mutex_lock(&event->lock);
    struct mark *old = event->mark;
    event->mark = mark;
    pthread_mutex_unlock(&event->lock);
    sim_drop_mark(old);
    sim_add(FIGURE_RECORDS, 1);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER_Z(cuEventRecord);
    LEAVE(record(event, STREAM(stream)));
}
TWIN(cuEventRecord, _ptsz);

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    ENTER_Z(cuEventRecordWithFlags);
    (void)flags;
    LEAVE(record(event, STREAM(stream)));
}
TWIN(cuEventRecordWithFlags, _ptsz);

/* A reference to the event's newest recording, or NULL. */
static struct mark *recording(CUevent event)
{
    pthread_mutex_lock(&event->lock);
    struct mark *mark = event->mark;
    if (mark)
        atomic_fetch_add(&mark->references, 1);
    pthread_mutex_unlock(&event->lock);
    return mark;
}

static CUresult wait_event(CUstream stream, CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sim_capture_wait(stream, event, &result))
        return result;
    uint64_t start = sim_now();
    struct mark *mark = recording(event);
    if (mark)
        sim_queue_wait(stream, mark);
    sim_report_wait(2, stream->context, stream, event, mark ? mark->event_sync : 0, start);
    sim_drop_mark(mark);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER_Z(cuStreamWaitEvent);
    (void)flags;
    LEAVE(wait_event(STREAM(stream), event));
}
TWIN(cuStreamWaitEvent, _ptsz);

CUresult cuEventQuery(CUevent event)
{
    ENTER(cuEventQuery);
    if (!event)
        LEAVE(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = sim_capture_forbids(NULL);
    struct mark *mark = result ? NULL : recording(event);
    if (mark && !sim_mark_done(mark)) {
        result = CUDA_ERROR_NOT_READY;
        sim_stream_done(mark->stream);
    }
    if (mark)
        sim_report_query(1, event->context, mark->stream, event, mark->event_sync, result);
    sim_drop_mark(mark);
    LEAVE(result);
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER(cuEventSynchronize);
    if (!event)
        LEAVE(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = sim_capture_forbids(NULL);
    if (result)
        LEAVE(result);
    uint64_t start = sim_now();
    struct mark *mark = recording(event);
    if (mark)
        sim_wait_mark(mark);
    sim_report_wait(1, event->context, mark ? mark->stream : NULL, event,
                    mark ? mark->event_sync : 0, start);
    sim_drop_mark(mark);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    ENTER(cuEventElapsedTime_v2);
    if (!start || !end || !start->mark || !end->mark)
        LEAVE(CUDA_ERROR_INVALID_HANDLE);
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        LEAVE(CUDA_ERROR_INVALID_HANDLE);
    if (!sim_mark_done(start->mark) || !sim_mark_done(end->mark))
        LEAVE(CUDA_ERROR_NOT_READY);
    *ms = (float)((double)((int64_t)end->mark->time_ns - (int64_t)start->mark->time_ns) / 1e6);
    LEAVE(CUDA_SUCCESS);
}

/* ---- capture ---- */

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    ENTER_Z(cuStreamBeginCapture_v2);
    CUstream real = STREAM(stream);
    LEAVE(real ? sim_capture_begin(real, mode) : CUDA_ERROR_INVALID_CONTEXT);
}
TWIN(cuStreamBeginCapture_v2, _ptsz);

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER_Z(cuStreamEndCapture);
    CUstream real = STREAM(stream);
    LEAVE(real ? sim_capture_end(real, graph) : CUDA_ERROR_INVALID_CONTEXT);
}
TWIN(cuStreamEndCapture, _ptsz);

static CUstreamCaptureStatus capture_status(CUstream stream)
{
    struct capture *capture = stream ? stream->capture : NULL;
    return !capture || (!capture->graph && !capture->broken) ? CU_STREAM_CAPTURE_STATUS_NONE
           : capture->broken                                 ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER_Z(cuStreamIsCapturing);
    *status = capture_status(STREAM(stream));
    LEAVE(CUDA_SUCCESS);
}
TWIN(cuStreamIsCapturing, _ptsz);

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **tips,
                                   const CUgraphEdgeData **edges, size_t *n)
{
    ENTER_Z(cuStreamGetCaptureInfo_v3);
    CUstream real = STREAM(stream);
    *status = capture_status(real);
    bool active = *status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id)
        *id = active ? real->capture->id : 0;
    if (graph)
        *graph = active ? real->capture->graph : NULL;
    if (tips)
        *tips = active ? real->tips : NULL;
    if (edges)
        *edges = NULL;
    if (n)
        *n = active ? (size_t)real->n_tips : 0;
    LEAVE(CUDA_SUCCESS);
}
TWIN(cuStreamGetCaptureInfo_v3, _ptsz);

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(cuThreadExchangeStreamCaptureMode);
    *mode = sim_capture_exchange(*mode);
    LEAVE(CUDA_SUCCESS);
}

/* ---- graphs ---- */

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    ENTER(cuGraphCreate);
    (void)flags;
    *graph = sim_new_graph(false);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER(cuGraphDestroy);
    if (!graph)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    sim_free_graph(graph);
    LEAVE(CUDA_SUCCESS);
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, enum node_kind kind, const struct op *op,
                         const CUgraphNode *before, size_t n)
{
    if (!node || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    *node = sim_add_node(graph, kind, op, before, n);
    return CUDA_SUCCESS;
}

static CUresult kernel_op(struct op *op, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct launch launch = {p->func ? p->func : (CUfunction)p->kern,
                            {p->gridDimX, p->gridDimY, p->gridDimZ},
                            {p->blockDimX, p->blockDimY, p->blockDimZ},
                            {0, 0, 0},
                            p->sharedMemBytes,
                            p->kernelParams};
    return sim_make_launch(op, &launch);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                 size_t n, const CUDA_KERNEL_NODE_PARAMS *params)
{
    ENTER(cuGraphAddKernelNode_v2);
    struct op op;
    CUresult result = kernel_op(&op, params);
    LEAVE(result ? result : add_node(node, graph, NODE_KERNEL, &op, before, n));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    ENTER(cuGraphKernelNodeSetParams_v2);
    LEAVE(kernel_op(&node->op, params));
}

/* The executable graph's copy of this node. Copying keeps the order of nodes. */
static CUgraphNode node_in(CUgraphExec exec, CUgraphNode node)
{
    for (int i = 0; i < exec->graph->n_nodes; i++)
        if ((uint32_t)exec->graph->nodes[i]->id == (uint32_t)node->id)
            return exec->graph->nodes[i];
    return NULL;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    ENTER(cuGraphExecKernelNodeSetParams_v2);
    CUgraphNode mine = node_in(exec, node);
    LEAVE(mine ? kernel_op(&mine->op, params) : CUDA_ERROR_INVALID_VALUE);
}

static void *address_3d(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
                        size_t x)
{
    return type == CU_MEMORYTYPE_HOST    ? (char *)host + x
           : type == CU_MEMORYTYPE_ARRAY ? (char *)array->memory + x
                                         : (char *)(uintptr_t)device + x;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
                              const CUDA_MEMCPY3D *p, CUcontext context)
{
    ENTER(cuGraphAddMemcpyNode);
    (void)context;
    struct copy copy = {
        .to = address_3d(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes),
        .from = address_3d(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes),
        .width = p->WidthInBytes,
        .height = p->Height ? p->Height : 1,
        .depth = p->Depth ? p->Depth : 1,
        .to_pitch = p->dstPitch,
        .from_pitch = p->srcPitch,
        .to_slice = p->dstPitch * p->dstHeight,
        .from_slice = p->srcPitch * p->srcHeight,
    };
    struct op op;
    sim_make_copy(&op, &copy);
    LEAVE(add_node(node, graph, NODE_COPY, &op, before, n));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    ENTER(cuGraphAddMemsetNode);
    (void)context;
    struct fill fill = {(void *)(uintptr_t)p->dst,
                        p->width,
                        p->height ? p->height : 1,
                        p->pitch,
                        p->value,
                        p->elementSize};
    struct op op;
    sim_make_fill(&op, &fill);
    LEAVE(add_node(node, graph, NODE_FILL, &op, before, n));
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
                            const CUDA_HOST_NODE_PARAMS *p)
{
    ENTER(cuGraphAddHostNode);
    struct op op;
    memset(&op, 0, sizeof op);
    op.action.host = p->fn;
    op.action.user = p->userData;
    LEAVE(add_node(node, graph, NODE_HOST, &op, before, n));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n)
{
    ENTER(cuGraphAddEmptyNode);
    LEAVE(add_node(node, graph, NODE_EMPTY, NULL, before, n));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    ENTER(cuGraphGetNodes);
    size_t has = (size_t)graph->n_nodes;
    if (nodes)
        for (size_t i = 0; i < *n && i < has; i++)
            nodes[i] = graph->nodes[i];
    *n = has;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    ENTER(cuGraphNodeGetType);
    static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
                                            CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST,
                                            CU_GRAPH_NODE_TYPE_EMPTY};
    *type = types[node->kind];
    LEAVE(CUDA_SUCCESS);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    ENTER(cuGraphInstantiateWithFlags);
    (void)flags;
    LEAVE(sim_instantiate(exec, graph));
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    ENTER(cuGraphExecUpdate_v2);
    LEAVE(sim_update(exec, graph, info));
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    ENTER(cuGraphExecDestroy);
    if (!exec)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    sim_drop_exec(exec);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    ENTER_Z(cuGraphUpload);
    (void)stream;
    LEAVE(exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
TWIN(cuGraphUpload, _ptsz);

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER_Z(cuGraphLaunch);
    LEAVE(sim_launch_graph(exec, STREAM(stream)));
}
TWIN(cuGraphLaunch, _ptsz);
