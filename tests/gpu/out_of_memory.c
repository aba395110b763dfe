/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of several kinds that fail for lack of memory. --die 1: SIGKILL right after the first
 * failure. */
#include <cuda_runtime_api.h>
#include <signal.h>
#include <unistd.h>

#include "preload/cprof.h"
#include "tests/gpu/program.h"

#define TOO_MUCH ((size_t)1 << 50)

int main(int argc, char **argv)
{
    void *a, *b, *c, *none;
    bool die = number(argc, argv, "die", 0) != 0;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&a, 3 << 20));
    CHECK(cudaMalloc(&b, 1 << 20));
    cprof_range_push("too much");
    EXPECT(cudaMalloc(&none, TOO_MUCH) == cudaErrorMemoryAllocation);
    if (die)
        kill(getpid(), SIGKILL);
    cprof_range_pop();
    EXPECT(cudaMallocAsync(&none, TOO_MUCH + 1, NULL) == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaFree(b));
    CHECK(cudaHostAlloc(&c, 1 << 16, cudaHostAllocDefault));
    CHECK(cudaFreeHost(c));
    CHECK(cudaFree(a));
    tally.allocs += 3;
    tally.frees += 3;
    return report();
}
