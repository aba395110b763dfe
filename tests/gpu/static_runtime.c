/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a static CUDA runtime (libcudart_static.a), which exports nothing: calls cannot be
 * interposed, only CUPTI sees them. --launches N. --woken-us N: another thread marks a range, and
 * the first call follows N us later. Real build: nvcc -cudart static */
#include <pthread.h>
#include <unistd.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static void *mark(void *unused)
{
    cprof_range_push("first");
    cprof_range_pop();
    return unused;
}

int main(int argc, char **argv)
{
    long launches = number(argc, argv, "launches", 100);
    long woken_us = number(argc, argv, "woken-us", -1);
    float *x, host[256];
    pthread_t other;
    if (woken_us >= 0) {
        EXPECT(pthread_create(&other, NULL, mark, NULL) == 0);
        usleep((useconds_t)woken_us);
    }
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
    if (woken_us >= 0)
        pthread_join(other, NULL);
    return report();
}
