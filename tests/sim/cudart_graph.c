/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated CUDA runtime: stream capture and graphs. */
#include "tests/sim/cudart.h"

#include <string.h>

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    RT_Z(cudaStreamBeginCapture, v10000, v10000);
    RT_END(drv.cuStreamBeginCapture_v2(STREAM(stream), (CUstreamCaptureMode)mode));
}
TWIN(cudaStreamBeginCapture, _ptsz);

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    RT_Z(cudaStreamEndCapture, v10000, v10000);
    RT_END(drv.cuStreamEndCapture(STREAM(stream), graph));
}
TWIN(cudaStreamEndCapture, _ptsz);

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    RT_Z(cudaStreamIsCapturing, v10000, v10000);
    RT_END(drv.cuStreamIsCapturing(STREAM(stream), (CUstreamCaptureStatus *)status));
}
TWIN(cudaStreamIsCapturing, _ptsz);

static CUresult capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                             unsigned long long *id, cudaGraph_t *graph,
                             const cudaGraphNode_t **tips, const cudaGraphEdgeData **edges,
                             size_t *n)
{
    cuuint64_t number = 0;
    CUresult result = drv.cuStreamGetCaptureInfo_v3(stream, (CUstreamCaptureStatus *)status,
                                                    &number, graph, (const CUgraphNode **)tips,
                                                    (const CUgraphEdgeData **)edges, n);
    if (id)
        *id = number;
    return result;
}

/* The name has had three prototypes. CUDA 12's has two results less, and PyTorch's builds call
 * its _v2. */
#if SIM_CUDART == 12
cudaError_t capture_info_2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                           unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **tips,
                           size_t *n) __asm__("cudaStreamGetCaptureInfo_v2");
cudaError_t capture_info_2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                           unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **tips,
                           size_t *n)
{
    RT_EARLY(cudaStreamGetCaptureInfo, v12030);
    RT_END(capture_info(stream, status, id, graph, tips, NULL, n));
}
#endif

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **tips, const cudaGraphEdgeData **edges,
                                     size_t *n)
{
    RT_Z(cudaStreamGetCaptureInfo, v12030, v12030);
    RT_END(capture_info(STREAM(stream), status, id, graph, tips, edges, n));
}
TWIN(cudaStreamGetCaptureInfo, _ptsz);

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    RT(cudaThreadExchangeStreamCaptureMode, v10010);
    RT_END(drv.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

/* ---- graphs built node by node ---- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
    RT(cudaGraphCreate, v10000);
    RT_END(drv.cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    RT(cudaGraphDestroy, v10000);
    RT_END(drv.cuGraphDestroy(graph));
}

static bool translate(CUDA_KERNEL_NODE_PARAMS *to, const struct cudaKernelNodeParams *from)
{
    memset(to, 0, sizeof *to);
    to->func = rt_function(from->func);
    to->gridDimX = from->gridDim.x;
    to->gridDimY = from->gridDim.y;
    to->gridDimZ = from->gridDim.z;
    to->blockDimX = from->blockDim.x;
    to->blockDimY = from->blockDim.y;
    to->blockDimZ = from->blockDim.z;
    to->sharedMemBytes = from->sharedMemBytes;
    to->kernelParams = from->kernelParams;
    return to->func != NULL;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *before, size_t n,
                                   const struct cudaKernelNodeParams *params)
{
    RT(cudaGraphAddKernelNode, v10000);
    CUDA_KERNEL_NODE_PARAMS full;
    if (!translate(&full, params))
        RT_END(cudaErrorInvalidDeviceFunction);
    RT_END(drv.cuGraphAddKernelNode_v2(node, graph, before, n, &full));
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *params)
{
    RT(cudaGraphKernelNodeSetParams, v10000);
    CUDA_KERNEL_NODE_PARAMS full;
    if (!translate(&full, params))
        RT_END(cudaErrorInvalidDeviceFunction);
    RT_END(drv.cuGraphKernelNodeSetParams_v2(node, &full));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *params)
{
    RT(cudaGraphExecKernelNodeSetParams, v10010);
    CUDA_KERNEL_NODE_PARAMS full;
    if (!translate(&full, params))
        RT_END(cudaErrorInvalidDeviceFunction);
    RT_END(drv.cuGraphExecKernelNodeSetParams_v2(exec, node, &full));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *before, size_t n, void *to,
                                     const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    RT(cudaGraphAddMemcpyNode1D, v11010);
    (void)kind;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = DEVICE_AT(from),
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = DEVICE_AT(to),
                          .WidthInBytes = bytes,
                          .Height = 1,
                          .Depth = 1};
    RT_END(drv.cuGraphAddMemcpyNode(node, graph, before, n, &copy, rt_context_of(rt_device())));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *before, size_t n,
                                   const struct cudaMemsetParams *params)
{
    RT(cudaGraphAddMemsetNode, v10000);
    CUDA_MEMSET_NODE_PARAMS full = {.dst = DEVICE_AT(params->dst),
                                    .pitch = params->pitch,
                                    .value = params->value,
                                    .elementSize = params->elementSize,
                                    .width = params->width,
                                    .height = params->height};
    RT_END(drv.cuGraphAddMemsetNode(node, graph, before, n, &full, rt_context_of(rt_device())));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                 const cudaGraphNode_t *before, size_t n,
                                 const struct cudaHostNodeParams *params)
{
    RT(cudaGraphAddHostNode, v10000);
    CUDA_HOST_NODE_PARAMS full = {.fn = params->fn, .userData = params->userData};
    RT_END(drv.cuGraphAddHostNode(node, graph, before, n, &full));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *before, size_t n)
{
    RT(cudaGraphAddEmptyNode, v10000);
    RT_END(drv.cuGraphAddEmptyNode(node, graph, before, n));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    RT(cudaGraphGetNodes, v10000);
    RT_END(drv.cuGraphGetNodes(graph, nodes, n));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    RT(cudaGraphNodeGetType, v10000);
    RT_END(drv.cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

/* ---- executable graphs ---- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    RT(cudaGraphInstantiate, v12000);
    RT_END(drv.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    RT(cudaGraphInstantiateWithFlags, v11040);
    RT_END(drv.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *info)
{
    RT(cudaGraphExecUpdate, v10020);
    RT_END(drv.cuGraphExecUpdate_v2(exec, graph, (CUgraphExecUpdateResultInfo *)info));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    RT(cudaGraphExecDestroy, v10000);
    RT_END(drv.cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    RT_Z(cudaGraphUpload, v10000, v10000);
    RT_END(drv.cuGraphUpload(exec, STREAM(stream)));
}
TWIN(cudaGraphUpload, _ptsz);

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    RT_Z(cudaGraphLaunch, v10000, v10000);
    RT_END(drv.cuGraphLaunch(exec, STREAM(stream)));
}
TWIN(cudaGraphLaunch, _ptsz);
