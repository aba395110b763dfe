/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels.h for a real GPU. */
#include "tests/gpu/kernels.h"

__device__ static void spin(unsigned long nanoseconds)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
}

__global__ void spin_kernel(unsigned long nanoseconds)
{
    spin(nanoseconds);
}

__global__ void add_kernel(float *x, float v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += v;
}

__global__ void wait_kernel(volatile int *flag, unsigned long limit_ns)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (!flag[0] && now - start < limit_ns);
    flag[1] = flag[0];
}

template <typename T, int N> __global__ void gemm_kernel(unsigned long nanoseconds)
{
    spin(nanoseconds);
}

namespace at
{
namespace native
{
__global__ void softmax_kernel(unsigned long nanoseconds)
{
    spin(nanoseconds);
}

template <int N> __global__ void vectorized_elementwise_kernel(unsigned long nanoseconds)
{
    spin(nanoseconds);
}

__global__ void multi_tensor_apply_kernel(unsigned long nanoseconds)
{
    spin(nanoseconds);
}
} // namespace native
} // namespace at

template <unsigned long N> struct ncclDevKernelArgsStorage {
    unsigned long nanoseconds;
    char rest[N - sizeof(unsigned long)];
};

__global__ void ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096> args)
{
    spin(args.nanoseconds);
}

extern "C" __global__ void plain_c_kernel(unsigned long nanoseconds)
{
    spin(nanoseconds);
}

cudaError_t gpu_spin(cudaStream_t stream, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    return cudaLaunchKernel((const void *)spin_kernel, dim3(1), dim3(32), args, 0, stream);
}

cudaError_t gpu_add(cudaStream_t stream, float *x, float v, int n)
{
    void *args[] = {&x, &v, &n};
    return cudaLaunchKernel((const void *)add_kernel, dim3((n + 255) / 256), dim3(256), args, 0, stream);
}

cudaError_t gpu_wait(cudaStream_t stream, volatile int *flag, uint64_t limit_ns)
{
    void *args[] = {&flag, &limit_ns};
    return cudaLaunchKernel((const void *)wait_kernel, dim3(1), dim3(1), args, 0, stream);
}

cudaError_t gpu_named(cudaStream_t stream, int which, uint64_t nanoseconds)
{
    static const void *const functions[GPU_NAMED] = {
        (const void *)gemm_kernel<float, 128>,
        (const void *)at::native::softmax_kernel,
        (const void *)at::native::vectorized_elementwise_kernel<4>,
        (const void *)ncclDevKernel_AllReduce_Sum_f32_RING_LL,
        (const void *)at::native::multi_tensor_apply_kernel,
        (const void *)plain_c_kernel,
    };
    ncclDevKernelArgsStorage<4096> storage = {nanoseconds, {0}};
    void *args[] = {&storage};
    return cudaLaunchKernel(functions[which], dim3(2), dim3(256), args, 0, stream);
}

cudaError_t gpu_cooperative(cudaStream_t stream, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    return cudaLaunchCooperativeKernel((const void *)spin_kernel, dim3(2), dim3(32), args, 0, stream);
}

cudaError_t gpu_cluster(cudaStream_t stream, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(2);
    config.blockDim = dim3(32);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelExC(&config, (const void *)spin_kernel, args);
}

const void *gpu_spin_function(void)
{
    return (const void *)spin_kernel;
}

const void *gpu_add_function(void)
{
    return (const void *)add_kernel;
}
