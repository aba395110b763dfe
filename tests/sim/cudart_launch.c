/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated CUDA runtime: launches, occupancy, streams, events. */
#include "tests/sim/cudart.h"

#include <string.h>

/* ---- launches ---- */

static CUresult launch(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                       cudaStream_t stream)
{
    CUfunction f = rt_function(function);
    if (!f)
        return (CUresult)cudaErrorInvalidDeviceFunction;
    CUresult result = drv.cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                         (unsigned)shared, stream, args, NULL);
    return result == CUDA_ERROR_INVALID_VALUE ? (CUresult)cudaErrorInvalidConfiguration : result;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
                             size_t shared, cudaStream_t stream)
{
    RT_Z(cudaLaunchKernel, v7000, v7000);
    RT_END(launch(function, grid, block, args, shared, STREAM(stream)));
}
TWIN(cudaLaunchKernel, _ptsz);

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream)
{
    RT_Z(__cudaLaunchKernel, v13000, v13000);
    RT_END(launch((const void *)kernel, grid, block, args, shared, STREAM(stream)));
}
TWIN(__cudaLaunchKernel, _ptsz);

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args,
                                        size_t shared, cudaStream_t stream)
{
    RT_Z(cudaLaunchCooperativeKernel, v9000, v9000);
    CUfunction f = rt_function(function);
    if (!f)
        RT_END(cudaErrorInvalidDeviceFunction);
    RT_END(drv.cuLaunchCooperativeKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                         (unsigned)shared, STREAM(stream), args));
}
TWIN(cudaLaunchCooperativeKernel, _ptsz);

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    RT_Z(cudaLaunchKernelExC, v11060, v11060);
    CUfunction f = rt_function(function);
    if (!f)
        RT_END(cudaErrorInvalidDeviceFunction);
    /* Launch attributes have the same layout in the runtime and the driver API. */
    CUlaunchConfig same = {
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = STREAM(config->stream),
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    RT_END(drv.cuLaunchKernelEx(&same, f, args, NULL));
}
TWIN(cudaLaunchKernelExC, _ptsz);

#if SIM_CUDART == 12
struct launch_params { /* cudaLaunchParams of the CUDA 12 headers */
    void *func;
    dim3 gridDim, blockDim;
    void **args;
    size_t sharedMem;
    cudaStream_t stream;
};

cudaError_t cudaLaunchCooperativeKernelMultiDevice(struct launch_params *list, unsigned n,
                                                   unsigned flags);
cudaError_t cudaLaunchCooperativeKernelMultiDevice(struct launch_params *list, unsigned n,
                                                   unsigned flags)
{
    RT(cudaLaunchCooperativeKernelMultiDevice, v9000);
    (void)flags;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < n && !result; i++)
        result = launch(list[i].func, list[i].gridDim, list[i].blockDim, list[i].args,
                        list[i].sharedMem, list[i].stream);
    RT_END(result);
}
#endif

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user)
{
    RT_Z(cudaLaunchHostFunc, v10000, v10000);
    RT_END(drv.cuLaunchHostFunc(STREAM(stream), function, user));
}
TWIN(cudaLaunchHostFunc, _ptsz);

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *user,
                                  unsigned flags)
{
    RT_Z(cudaStreamAddCallback, v5000, v7000);
    RT_END(
        drv.cuStreamAddCallback(STREAM(stream), (CUstreamCallback)(void *)callback, user, flags));
}
TWIN(cudaStreamAddCallback, _ptsz);

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    RT(cudaFuncGetAttributes, v3020);
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = 90;
    RT_END(rt_function(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

/* ---- occupancy ---- */

static int blocks_per_sm(int threads)
{
    int blocks = threads > 0 ? 2048 / ((threads + 31) / 32 * 32) : 0;
    return blocks > 32 ? 32 : blocks;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared)
{
    RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor, v6050);
    (void)function;
    (void)shared;
    *blocks = blocks_per_sm(threads);
    RT_END(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *function,
                                                                   int threads, size_t shared,
                                                                   unsigned flags)
{
    RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, v7000);
    (void)function;
    (void)shared;
    (void)flags;
    *blocks = blocks_per_sm(threads);
    RT_END(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                           const cudaLaunchConfig_t *config)
{
    RT(cudaOccupancyMaxActiveClusters, v11070);
    (void)function;
    (void)config;
    *clusters = 16;
    RT_END(cudaSuccess);
}

/* ---- streams ---- */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    RT(cudaStreamCreate, v3020);
    RT_END(drv.cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    RT(cudaStreamCreateWithFlags, v5000);
    RT_END(drv.cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    RT(cudaStreamCreateWithPriority, v5050);
    RT_END(drv.cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    RT(cudaStreamDestroy, v5050);
    RT_END(drv.cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    RT_Z(cudaStreamSynchronize, v3020, v7000);
    RT_END(drv.cuStreamSynchronize(STREAM(stream)));
}
TWIN(cudaStreamSynchronize, _ptsz);

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    RT_Z(cudaStreamQuery, v3020, v7000);
    RT_END(drv.cuStreamQuery(STREAM(stream)));
}
TWIN(cudaStreamQuery, _ptsz);

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    RT_Z(cudaStreamWaitEvent, v3020, v7000);
    RT_END(drv.cuStreamWaitEvent(STREAM(stream), event, flags));
}
TWIN(cudaStreamWaitEvent, _ptsz);

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    RT_Z(cudaStreamGetPriority, v5050, v7000);
    RT_END(drv.cuStreamGetPriority(STREAM(stream), priority));
}
TWIN(cudaStreamGetPriority, _ptsz);

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
    RT_Z(cudaStreamGetFlags, v5050, v7000);
    RT_END(drv.cuStreamGetFlags(STREAM(stream), flags));
}
TWIN(cudaStreamGetFlags, _ptsz);

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    RT_Z(cudaStreamGetId, v12000, v12000);
    RT_END(drv.cuStreamGetId(STREAM(stream), id));
}
TWIN(cudaStreamGetId, _ptsz);

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    RT_Z(cudaStreamGetDevice, v12080, v12080);
    RT_END(drv.cuStreamGetDevice(STREAM(stream), device));
}
TWIN(cudaStreamGetDevice, _ptsz);

/* ---- events ---- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    RT(cudaEventCreate, v3020);
    RT_END(drv.cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    RT(cudaEventCreateWithFlags, v3020);
    RT_END(drv.cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    RT(cudaEventDestroy, v3020);
    RT_END(drv.cuEventDestroy_v2(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    RT_Z(cudaEventRecord, v3020, v7000);
    RT_END(drv.cuEventRecord(event, STREAM(stream)));
}
TWIN(cudaEventRecord, _ptsz);

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    RT_Z(cudaEventRecordWithFlags, v11010, v11010);
    RT_END(drv.cuEventRecordWithFlags(event, STREAM(stream), flags));
}
TWIN(cudaEventRecordWithFlags, _ptsz);

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    RT(cudaEventQuery, v3020);
    RT_END(drv.cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    RT(cudaEventSynchronize, v3020);
    RT_END(drv.cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    RT(cudaEventElapsedTime, v12080);
    RT_END(drv.cuEventElapsedTime_v2(ms, start, end));
}
