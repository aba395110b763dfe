/* SPDX-License-Identifier: Apache-2.0 */
/* Many launches: --threads T, each with --streams S, --launches N per thread, kernels of --ns each, --devices D in
 * turn, --sync N: a stream synchronisation after so many launches, --mark 1: a step ends before the first launch. */
#include <pthread.h>
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static long n_threads, n_streams, n_launches, nanoseconds, n_devices, sync_after;

static void *run(void *given)
{
    long index = (long)(intptr_t)given, syncs = 0;
    cudaStream_t *streams = calloc((size_t)n_streams, sizeof *streams);
    CHECK(cudaSetDevice((int)(index % n_devices)));
    for (long i = 0; i < n_streams; i++)
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (long i = 0; i < n_launches; i++) {
        CHECK(gpu_spin(streams[i % n_streams], (uint64_t)nanoseconds));
        if (sync_after && i % sync_after == sync_after - 1) {
            CHECK(cudaStreamSynchronize(streams[i % n_streams]));
            syncs++;
        }
    }
    for (long i = 0; i < n_streams; i++, syncs++) {
        CHECK(cudaStreamSynchronize(streams[i]));
        CHECK(cudaStreamDestroy(streams[i]));
    }
    free(streams);
    tally.kernels += (uint64_t)n_launches;
    tally.stream_syncs += (uint64_t)syncs;
    return NULL;
}

int main(int argc, char **argv)
{
    struct timespec a, b;
    n_threads = number(argc, argv, "threads", 2);
    n_streams = number(argc, argv, "streams", 2);
    n_launches = number(argc, argv, "launches", 1000);
    nanoseconds = number(argc, argv, "ns", 2000);
    n_devices = number(argc, argv, "devices", 1);
    sync_after = number(argc, argv, "sync", 0);
    CHECK(cudaSetDevice(0));
    if (number(argc, argv, "mark", 0))
        cprof_step();
    pthread_t *threads = calloc((size_t)n_threads, sizeof *threads);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < n_threads; i++)
        CHECK(pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i));
    for (long i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    free(threads);
    double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    fprintf(stderr, "%.3f s, %.0f ns per launch\n", seconds,
            seconds * 1e9 / (double)(n_threads * n_launches));
    return report();
}
