/* SPDX-License-Identifier: Apache-2.0 */
/* Many launches: --threads T, each with --streams S, --launches N per thread, kernels of --ns each, --devices D in
 * turn, --sync N: a stream synchronisation after so many launches, --mark 1: a step ends before the first launch, --settle MS: how
 * long after that, --rounds R: all of that so often, each time by new threads. On stderr: how long a launch took, and `launch_cpu value ns`, the CPU time of its thread. */
#include <pthread.h>
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static long n_threads, n_streams, n_launches, nanoseconds, n_devices, sync_after;
static _Atomic uint64_t cpu_ns; /* of all launches */

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *run(void *given)
{
    long index = (long)(intptr_t)given, syncs = 0;
    cudaStream_t *streams = calloc((size_t)n_streams, sizeof *streams);
    CHECK(cudaSetDevice((int)(index % n_devices)));
    for (long i = 0; i < n_streams; i++)
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    uint64_t before = thread_cpu_ns();
    for (long i = 0; i < n_launches; i++) {
        CHECK(gpu_spin(streams[i % n_streams], (uint64_t)nanoseconds));
        if (sync_after && i % sync_after == sync_after - 1) {
            CHECK(cudaStreamSynchronize(streams[i % n_streams]));
            syncs++;
        }
    }
    cpu_ns += thread_cpu_ns() - before;
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
    long rounds = number(argc, argv, "rounds", 1);
    CHECK(cudaSetDevice(0));
    if (number(argc, argv, "mark", 0))
        cprof_step();
    long settle = number(argc, argv, "settle", 0);
    nanosleep(&(struct timespec){settle / 1000, settle % 1000 * 1000000}, NULL);
    pthread_t *threads = calloc((size_t)n_threads, sizeof *threads);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long round = 0; round < rounds; round++) {
        for (long i = 0; i < n_threads; i++)
            CHECK(pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i));
        for (long i = 0; i < n_threads; i++)
            pthread_join(threads[i], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    free(threads);
    double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    double launches = (double)(rounds * n_threads * n_launches);
    fprintf(stderr, "%.3f s, %.0f ns per launch\n", seconds, seconds * 1e9 / launches);
    fprintf(stderr, "launch_cpu %.1f ns\n", (double)cpu_ns / launches);
    return report();
}
