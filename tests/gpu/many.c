/* SPDX-License-Identifier: Apache-2.0 */
/* Many launches, timed.
 *
 *     --threads T --streams S   T threads with S streams each, on --devices D in turn
 *     --launches N --ns NS      N kernels of NS ns per thread; --graph K: in graphs of K nodes
 *     --sync N                  a stream synchronisation after every N launches
 *     --mark 1                  a step ends before the first launch
 *     --recorded N              before that, a step with N launches and a step without launches
 *     --settle MS               a pause before the timed part, and in the step without launches
 *     --rounds R                repeats the timed part R times, each time with new threads
 *     --gap MS                  a pause between rounds
 *
 * Prints to stderr the time per launch, and `launch_cpu value ns`, the CPU time of the thread per
 * launch. */
#include <pthread.h>
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static long n_threads, n_streams, n_launches, nanoseconds, n_devices, sync_after, n_nodes;
static _Atomic uint64_t cpu_ns; /* of all launches */

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A graph of n_nodes kernels, one after the other. */
static cudaGraphExec_t make_graph(cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (long i = 0; i < n_nodes; i++)
        CHECK(gpu_spin(stream, (uint64_t)nanoseconds));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

/* n_launches kernels in graphs. */
static void launch_graphs(cudaStream_t stream)
{
    cudaGraphExec_t exec = make_graph(stream);
    uint64_t before = thread_cpu_ns();
    for (long i = 0; i < n_launches / n_nodes; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
        tally.graph_launches++;
        tally.graph_kernels += (uint64_t)n_nodes;
    }
    cpu_ns += thread_cpu_ns() - before;
    CHECK(cudaStreamSynchronize(stream));
    tally.stream_syncs++;
    CHECK(cudaGraphExecDestroy(exec));
}

/* A step that ends after its kernels have ended. */
static void recorded_step(long launches)
{
    cprof_step();
    for (long i = 0; i < launches; i++, tally.kernels++)
        CHECK(gpu_spin(0, (uint64_t)nanoseconds));
    CHECK(cudaStreamSynchronize(0));
    tally.stream_syncs++;
    cprof_step();
}

static void *run(void *given)
{
    long index = (long)(intptr_t)given, syncs = 0;
    cudaStream_t *streams = calloc((size_t)n_streams, sizeof *streams);
    CHECK(cudaSetDevice((int)(index % n_devices)));
    for (long i = 0; i < n_streams; i++)
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    if (n_nodes)
        launch_graphs(streams[0]);
    uint64_t before = thread_cpu_ns();
    for (long i = 0; i < n_launches && !n_nodes; i++) {
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
    if (!n_nodes)
        tally.kernels += (uint64_t)n_launches;
    tally.stream_syncs += (uint64_t)syncs;
    return NULL;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
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
    n_nodes = number(argc, argv, "graph", 0);
    long rounds = number(argc, argv, "rounds", 1);
    long gap = number(argc, argv, "gap", 0), first = number(argc, argv, "recorded", 0);
    long settle = number(argc, argv, "settle", 0);
    CHECK(cudaSetDevice(0));
    if (first) {
        recorded_step(first);
        pause_ms(settle);
        cprof_step(); /* all records were delivered: cprof disables the activity kinds */
    }
    if (number(argc, argv, "mark", 0))
        cprof_step();
    pause_ms(settle);
    pthread_t *threads = calloc((size_t)n_threads, sizeof *threads);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long round = 0; round < rounds; round++) {
        if (round)
            pause_ms(gap);
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
