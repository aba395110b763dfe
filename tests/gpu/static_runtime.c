/* SPDX-License-Identifier: Apache-2.0 */
/* A program with the runtime linked into it (libcudart_static.a), which exports nothing: no call can be interposed, only
 * CUPTI sees them. --launches N. Real build: nvcc -cudart static */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

int main(int argc, char **argv)
{
    long launches = number(argc, argv, "launches", 100);
    float *x, host[256];
    CHECK(cudaMalloc((void **)&x, sizeof host));
    tally.allocs++;
    CHECK(cudaMemset(x, 0, sizeof host));
    tally_fill(sizeof host);
    for (long i = 0; i < launches; i++, tally.kernels++)
        CHECK(gpu_add(0, x, 1, 256));
    CHECK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    tally_copy(DTOH, sizeof host);
    EXPECT(host[0] == (float)launches && host[255] == (float)launches);
    CHECK(cudaFree(x));
    tally.frees++;
    return report();
}
