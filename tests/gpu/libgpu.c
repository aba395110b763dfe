/* SPDX-License-Identifier: Apache-2.0 */
/* A library with kernels and a CUDA runtime of its own. Built twice, as libgpu12.so and
 * libgpu13.so, for two_runtimes.c. */
#include "tests/gpu/kernels.h"

#define NAME_(runtime) gpu_work_##runtime
#define NAME(runtime)  NAME_(runtime)

/* Launches n kernels and returns the runtime's version, or minus the error. */
__attribute__((visibility("default"))) int NAME(RUNTIME)(int n);
int NAME(RUNTIME)(int n)
{
    int version = 0;
    cudaError_t error = cudaRuntimeGetVersion(&version);
    for (int i = 0; i < n && !error; i++)
        error = gpu_named(0, i % GPU_NAMED, 3000);
    if (!error)
        error = cudaDeviceSynchronize();
    return error ? -(int)error : version;
}

#define LAUNCH_(runtime) gpu_launch_##runtime
#define LAUNCH(runtime)  LAUNCH_(runtime)

/* Launches one kernel of this length, without waiting for it. For tests/e2e/planted. */
__attribute__((visibility("default"))) int LAUNCH(RUNTIME)(int which, unsigned long nanoseconds);
int LAUNCH(RUNTIME)(int which, unsigned long nanoseconds)
{
    return (int)gpu_named(0, which, nanoseconds);
}
