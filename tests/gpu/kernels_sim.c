/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels.h for the simulated GPU. They are registered as in nvcc's code, with an
 * image that describes each kernel (tests/sim/image.h). */
#include "tests/gpu/kernels.h"

#include <time.h>

#include "tests/sim/image.h"

/* The registration calls that nvcc generates, from crt/host_runtime.h, which is C++. */
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **binary);
void __cudaUnregisterFatBinary(void **binary);
void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name,
                            int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *size);

static void add(void **args)
{
    float *x = *(float **)args[0], v = *(float *)args[1];
    for (int i = 0, n = *(int *)args[2]; i < n; i++)
        x[i] += v;
}

static void wait_for_flag(void **args)
{
    volatile int *flag = *(volatile int **)args[0];
    const struct timespec pause = {.tv_nsec = 100000};
    for (uint64_t ns = 0; !flag[0] && ns < *(uint64_t *)args[1]; ns += 100000)
        nanosleep(&pause, NULL);
    flag[1] = flag[0];
}

enum { SPIN, ADD, WAIT, NAMED, N_KERNELS = NAMED + GPU_NAMED };

/* clang-format off */
#define TIMED(mangled, regs, shared)                                                               \
    {                                                                                              \
        .name = mangled, .duration_arg = 0, .sizes = {8}, .registers = regs,                       \
        .static_shared = shared                                                                    \
    }
/* clang-format on */

static const struct sim_kernel kernels[N_KERNELS] = {
    [SPIN] = TIMED("_Z11spin_kernelm", 10, 0),
    [ADD] = {.name = "_Z10add_kernelPffi",
             .duration_arg = -1,
             .sizes = {8, 4, 4},
             .run = add,
             .registers = 12},
    [WAIT] = {.name = "_Z11wait_kernelPVim",
              .duration_arg = -1,
              .sizes = {8, 8},
              .run = wait_for_flag,
              .registers = 12},
    [NAMED + GPU_GEMM] = TIMED("_Z11gemm_kernelIfLi128EEvm", 168, 49152),
    [NAMED + GPU_SOFTMAX] = TIMED("_ZN2at6native14softmax_kernelEm", 40, 1024),
    [NAMED + GPU_ELEMENTWISE] =
        TIMED("_ZN2at6native29vectorized_elementwise_kernelILi4EEEvm", 26, 0),
    [NAMED + GPU_ALL_REDUCE] = TIMED(
        "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE", 96, 0),
    [NAMED + GPU_ADAM] = TIMED("_ZN2at6native25multi_tensor_apply_kernelEm", 32, 0),
    [NAMED + GPU_PLAIN_C] = TIMED("plain_c_kernel", 16, 0),
};

static const struct sim_image image = {SIM_IMAGE_MAGIC, kernels, N_KERNELS};

/* The runtime identifies kernels by the address of a host function. Any unique address works. */
static char stubs[N_KERNELS][16];
static void **binary;

__attribute__((constructor)) static void register_kernels(void)
{
    binary = __cudaRegisterFatBinary((void *)&image);
    for (int i = 0; i < N_KERNELS; i++)
        __cudaRegisterFunction(binary, stubs[i], (char *)kernels[i].name, kernels[i].name, -1, 0, 0,
                               0, 0, 0);
    __cudaRegisterFatBinaryEnd(binary);
}

__attribute__((destructor)) static void unregister_kernels(void)
{
    __cudaUnregisterFatBinary(binary);
}

static const dim3 one = {1, 1, 1}, two = {2, 1, 1}, warp = {32, 1, 1}, block = {256, 1, 1};

cudaError_t gpu_spin(cudaStream_t stream, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    return cudaLaunchKernel(stubs[SPIN], one, warp, args, 0, stream);
}

cudaError_t gpu_add(cudaStream_t stream, float *x, float v, int n)
{
    void *args[] = {&x, &v, &n};
    dim3 grid = {(unsigned)(n + 255) / 256, 1, 1};
    return cudaLaunchKernel(stubs[ADD], grid, block, args, 0, stream);
}

cudaError_t gpu_wait(cudaStream_t stream, volatile int *flag, uint64_t limit_ns)
{
    void *args[] = {&flag, &limit_ns};
    return cudaLaunchKernel(stubs[WAIT], one, one, args, 0, stream);
}

cudaError_t gpu_named(cudaStream_t stream, int which, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    return cudaLaunchKernel(stubs[NAMED + which], two, block, args, 0, stream);
}

cudaError_t gpu_cooperative(cudaStream_t stream, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    return cudaLaunchCooperativeKernel(stubs[SPIN], two, warp, args, 0, stream);
}

cudaError_t gpu_cluster(cudaStream_t stream, uint64_t nanoseconds)
{
    void *args[] = {&nanoseconds};
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim.x = 2;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {
        .gridDim = two, .blockDim = warp, .stream = stream, .attrs = &cluster, .numAttrs = 1};
    return cudaLaunchKernelExC(&config, stubs[SPIN], args);
}

const void *gpu_spin_function(void)
{
    return stubs[SPIN];
}

const void *gpu_add_function(void)
{
    return stubs[ADD];
}
