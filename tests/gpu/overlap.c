/* SPDX-License-Identifier: Apache-2.0 */
/* --streams streams run --launches kernels of --ns each at the same time. Prints the tally, and to
 * stderr event_ms, the time from the first start to the last end by CUDA's events. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { MOST = 16 };

int main(int argc, char **argv)
{
    long n = number(argc, argv, "streams", 4), launches = number(argc, argv, "launches", 50);
    uint64_t nanoseconds = (uint64_t)number(argc, argv, "ns", 400000);
    cudaStream_t streams[MOST];
    cudaEvent_t start, ends[MOST];
    float most = 0;
    EXPECT(n > 0 && n <= MOST);
    CHECK(cudaSetDevice(0));
    CHECK(cudaEventCreate(&start));
    for (long i = 0; i < n; i++) {
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&ends[i]));
        CHECK(gpu_spin(streams[i], nanoseconds)); /* loads the kernel */
        CHECK(cudaStreamSynchronize(streams[i]));
    }
    CHECK(cudaEventRecord(start, streams[0]));
    for (long i = 1; i < n; i++)
        CHECK(cudaStreamWaitEvent(streams[i], start, 0));
    for (long k = 0; k < launches; k++)
        for (long i = 0; i < n; i++)
            CHECK(gpu_spin(streams[i], nanoseconds));
    for (long i = 0; i < n; i++) {
        float ms = 0;
        CHECK(cudaEventRecord(ends[i], streams[i]));
        CHECK(cudaEventSynchronize(ends[i]));
        CHECK(cudaEventElapsedTime(&ms, start, ends[i]));
        most = ms > most ? ms : most;
    }
    tally.kernels = (uint64_t)(n * (launches + 1));
    tally.stream_syncs = tally.event_syncs = (uint64_t)n;
    tally.event_waits = (uint64_t)n - 1;
    tally.event_records = (uint64_t)n + 1;
    fprintf(stderr, "event_ms %.3f\n", (double)most);
    return report();
}
