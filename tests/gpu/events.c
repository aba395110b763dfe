/* SPDX-License-Identifier: Apache-2.0 */
/* Every way to wait: events between streams, event, stream and device synchronisation, host
 * functions. --rounds N. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static void count(void *n)
{
    ++*(_Atomic int *)n;
}

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 10);
    cudaStream_t first, second;
    cudaEvent_t start, half, end;
    static _Atomic int called;
    float *x, host[1024], ms = 0;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, -1));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&half));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMalloc((void **)&x, sizeof host));
    for (long i = 0; i < rounds; i++) {
        CHECK(cudaMemsetAsync(x, 0, sizeof host, first));
        tally_fill(sizeof host);
        CHECK(cudaEventRecord(start, first));
        CHECK(gpu_spin(first, 300000));
        CHECK(gpu_add(first, x, 1, 1024));
        CHECK(cudaLaunchHostFunc(first, count, &called));
        CHECK(cudaEventRecord(half, first));
        CHECK(cudaStreamWaitEvent(second, half, 0));
        CHECK(gpu_add(second, x, 1, 1024));
        CHECK(cudaEventRecord(end, second));
        tally.kernels += 3;
        tally.event_records += 3;
        tally.event_waits++;
        /* In the first round each launch loads its kernel, which may take longer than the kernel
         * runs. */
        EXPECT(cudaEventQuery(end) == cudaErrorNotReady || i == 0);
        CHECK(cudaEventSynchronize(end));
        tally.event_syncs++;
        EXPECT(called == i + 1);
        CHECK(cudaEventElapsedTime(&ms, start, end));
        /* the kernel's clock has a resolution of up to a microsecond */
        EXPECT(ms >= 0.29f);
        CHECK(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, second));
        tally_copy(DTOH, sizeof host);
        CHECK(cudaStreamSynchronize(second));
        tally.stream_syncs++;
        CHECK(cudaEventQuery(end)); /* as allocators and watchdogs do often */
        CHECK(cudaStreamQuery(second));
        EXPECT(host[0] == 2 && host[1023] == 2);
        CHECK(gpu_cooperative(first, 5000));
        CHECK(gpu_cluster(0, 5000));
        tally.kernels += 2;
        CHECK(cudaDeviceSynchronize());
        tally.device_syncs++;
    }
    CHECK(cudaFree(x));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(half));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    return report();
}
