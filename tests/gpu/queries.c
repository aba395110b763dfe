/* SPDX-License-Identifier: Apache-2.0 */
/* Queries finished events, as PyTorch's caching allocators and NCCL's watchdog do: --rounds
 * launches, each followed by --queries queries. All calls are inside --open ranges that never
 * end. */
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 20000), queries = number(argc, argv, "queries", 100);
    cudaStream_t s;
    cudaEvent_t e;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (long i = number(argc, argv, "open", 0); i > 0; i--)
        cprof_range_push("never ended");
    for (long i = 0; i < rounds; i++) {
        CHECK(gpu_named(s, GPU_GEMM, 1000));
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaStreamSynchronize(s));
        tally.kernels++;
        tally.event_records++;
        tally.stream_syncs++;
        for (long k = 0; k < queries; k++)
            CHECK(cudaEventQuery(e));
        if (i % 100 == 0)
            nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return report();
}
