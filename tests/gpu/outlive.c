/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of --ms, launched in step --at, that outlives its step by far. There are --steps steps
 * of --step-ms, each with a few short kernels on another stream. */
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

int main(int argc, char **argv)
{
    long steps = number(argc, argv, "steps", 20), at = number(argc, argv, "at", 3);
    long ms = number(argc, argv, "ms", 1500), step_ms = number(argc, argv, "step-ms", 20);
    cudaStream_t slow, fast;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&slow, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&fast, cudaStreamNonBlocking));
    for (long i = 0; i < steps; i++) {
        if (i == at) {
            CHECK(gpu_named(slow, GPU_GEMM, (uint64_t)ms * 1000000));
            tally.kernels++;
            fprintf(stderr, "the long kernel was launched\n");
        }
        for (int k = 0; k < 5; k++, tally.kernels++)
            CHECK(gpu_spin(fast, 10000));
        CHECK(cudaStreamSynchronize(fast));
        tally.stream_syncs++;
        nanosleep(&(struct timespec){step_ms / 1000, step_ms % 1000 * 1000000}, NULL);
        cprof_step();
        tally.steps++;
    }
    if (number(argc, argv, "wait", 1)) {
        CHECK(cudaDeviceSynchronize());
        tally.device_syncs++;
    }
    return report();
}
