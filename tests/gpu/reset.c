/* SPDX-License-Identifier: Apache-2.0 */
/* cudaDeviceReset() after work, --rounds times: the handles become invalid, earlier work is
 * finished, and later work runs in a new context. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 3);
    for (long i = 0; i < rounds; i++) {
        cudaStream_t stream;
        float *x;
        CHECK(cudaSetDevice(0));
        CHECK(cudaStreamCreate(&stream));
        CHECK(cudaMalloc((void **)&x, 4096));
        CHECK(cudaMemsetAsync(x, 0, 4096, stream));
        tally_fill(4096);
        for (int k = 0; k < 10; k++, tally.kernels++)
            CHECK(gpu_add(stream, x, 1, 1024));
        CHECK(gpu_spin(0, 3000000));
        tally.kernels++;
        CHECK(cudaDeviceReset());
    }
    CHECK(gpu_spin(0, 1000));
    tally.kernels++;
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    return report();
}
