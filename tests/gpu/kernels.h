/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the programs of tests/gpu: kernels.cu for nvcc and a real GPU, kernels_sim.c for gcc
 * and the simulated GPU (tests/sim). Names, arguments and results are the same.
 *
 *     make sim                                                               simulated: build/gpu/
 *     nvcc -I. -o many tests/gpu/many.c tests/gpu/kernels.cu -cudart shared      real */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each function launches one kernel and returns the result of the launch. */

/* Keeps one SM busy for this time: spin_kernel(unsigned long). */
cudaError_t gpu_spin(cudaStream_t stream, uint64_t nanoseconds);
/* x[i] += v: add_kernel(float *, float, int). */
cudaError_t gpu_add(cudaStream_t stream, float *x, float v, int n);
/* Runs until flag[0] is not 0, for limit_ns at most, then copies flag[0] to flag[1]:
 * wait_kernel(volatile int *, unsigned long). flag: pinned memory of the host. */
cudaError_t gpu_wait(cudaStream_t stream, volatile int *flag, uint64_t limit_ns);
/* Runs for this time under the name of a well-known kernel, 0 <= which < GPU_NAMED. */
#define GPU_NAMED 6
cudaError_t gpu_named(cudaStream_t stream, int which, uint64_t nanoseconds);
enum { GPU_GEMM, GPU_SOFTMAX, GPU_ELEMENTWISE, GPU_ALL_REDUCE, GPU_ADAM, GPU_PLAIN_C };
/* spin_kernel by cudaLaunchCooperativeKernel, and with clusters of two blocks by
 * cudaLaunchKernelExC. */
cudaError_t gpu_cooperative(cudaStream_t stream, uint64_t nanoseconds);
cudaError_t gpu_cluster(cudaStream_t stream, uint64_t nanoseconds);
/* Values of cudaKernelNodeParams.func for spin_kernel and add_kernel. */
const void *gpu_spin_function(void);
const void *gpu_add_function(void);

#ifdef __cplusplus
}
#endif
