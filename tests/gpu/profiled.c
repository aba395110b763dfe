/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels inside and outside regions of cudaProfilerStart and cudaProfilerStop, for
 * CPROF_TRIGGER=cuda: --inside N kernels in the first of --regions R, one more in each further
 * region, N after each region. Prints the number of kernels in each region. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

/* From cuda_profiler_api.h, which the wheels of CUDA's headers lack. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

static void launches(long n, int which)
{
    for (long i = 0; i < n; i++)
        CHECK(gpu_named(NULL, which, 20000));
    CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    long inside = number(argc, argv, "inside", 7), regions = number(argc, argv, "regions", 2);
    CHECK(cudaSetDevice(0));
    launches(inside, GPU_SOFTMAX);
    for (long i = 0; i < regions; i++) {
        CHECK(cudaProfilerStart());
        launches(inside + i, GPU_GEMM);
        CHECK(cudaProfilerStop());
        launches(inside, GPU_SOFTMAX);
    }
    printf("{\"inside\": [");
    for (long i = 0; i < regions; i++)
        printf("%s%ld", i ? ", " : "", inside + i);
    printf("]}\n");
    return 0;
}
