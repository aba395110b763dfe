/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: captured from two streams (kernels, a copy and a memset), updated, and built by hand.
 * --launches N of each. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { N = 1024 };

static cudaStream_t main_stream, side;
static float *x, *y, *host;

/* memset -> add(v) -> fork: side adds 1 to y, main copies x to the host -> join. */
static cudaGraph_t capture(float v)
{
    cudaGraph_t graph;
    cudaEvent_t fork_event, join_event;
    CHECK(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(x, 0, N * sizeof *x, main_stream));
    CHECK(gpu_add(main_stream, x, v, N));
    CHECK(cudaEventRecord(fork_event, main_stream));
    CHECK(cudaStreamWaitEvent(side, fork_event, 0));
    CHECK(gpu_add(side, y, 1, N));
    CHECK(gpu_named(side, GPU_SOFTMAX, 20000));
    CHECK(cudaEventRecord(join_event, side));
    CHECK(cudaMemcpyAsync(host, x, N * sizeof *x, cudaMemcpyDeviceToHost, main_stream));
    CHECK(cudaStreamWaitEvent(main_stream, join_event, 0));
    CHECK(gpu_spin(main_stream, 5000));
    CHECK(cudaStreamEndCapture(main_stream, &graph));
    CHECK(cudaEventDestroy(fork_event));
    CHECK(cudaEventDestroy(join_event));
    return graph;
}

static void launch(cudaGraphExec_t exec, long n, int kernels, int copies, int fills)
{
    for (long i = 0; i < n; i++)
        CHECK(cudaGraphLaunch(exec, main_stream));
    CHECK(cudaStreamSynchronize(main_stream));
    tally.stream_syncs++;
    tally.graph_launches += (uint64_t)n;
    tally.graph_kernels += (uint64_t)(n * kernels);
    tally.graph_copies += (uint64_t)(n * copies);
    tally.graph_fills += (uint64_t)(n * fills);
}

static cudaGraph_t by_hand(void)
{
    cudaGraph_t graph;
    cudaGraphNode_t fill, add, spin, copy;
    uint64_t ns = 7000;
    float v = 3;
    int n = N;
    void *add_args[] = {&x, &v, &n}, *spin_args[] = {&ns};
    struct cudaMemsetParams zero = {.dst = x, .elementSize = 4, .width = N, .height = 1};
    struct cudaKernelNodeParams adds = {.func = (void *)gpu_add_function(),
                                        .gridDim = {4, 1, 1},
                                        .blockDim = {256, 1, 1},
                                        .kernelParams = add_args};
    struct cudaKernelNodeParams spins = {.func = (void *)gpu_spin_function(),
                                         .gridDim = {1, 1, 1},
                                         .blockDim = {32, 1, 1},
                                         .kernelParams = spin_args};
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &zero));
    CHECK(cudaGraphAddKernelNode(&add, graph, &fill, 1, &adds));
    CHECK(cudaGraphAddKernelNode(&spin, graph, &fill, 1, &spins));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &add, 1, host, x, N * sizeof *x,
                                   cudaMemcpyDeviceToHost));
    return graph;
}

int main(int argc, char **argv)
{
    long launches = number(argc, argv, "launches", 10);
    cudaGraphExec_t exec;
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&x, N * sizeof *x));
    CHECK(cudaMalloc((void **)&y, N * sizeof *y));
    CHECK(cudaMallocHost((void **)&host, N * sizeof *host));
    CHECK(cudaMemset(y, 0, N * sizeof *y));
    tally_fill(N * sizeof *y);
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;

    cudaGraph_t captured = capture(2), changed = capture(5);
    CHECK(cudaGraphInstantiate(&exec, captured, 0));
    launch(exec, launches, 4, 1, 1);
    EXPECT(launches == 0 || (host[0] == 2 && host[N - 1] == 2));
    CHECK(cudaGraphExecUpdate(exec, changed, &info));
    launch(exec, launches, 4, 1, 1);
    EXPECT(launches == 0 || host[N - 1] == 5);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(captured));
    CHECK(cudaGraphDestroy(changed));

    cudaGraph_t made = by_hand();
    CHECK(cudaGraphInstantiate(&exec, made, 0));
    CHECK(cudaGraphDestroy(made));
    launch(exec, launches, 2, 1, 1);
    EXPECT(launches == 0 || host[N - 1] == 3);
    CHECK(cudaGraphExecDestroy(exec));

    CHECK(cudaMemcpy(host, y, N * sizeof *y, cudaMemcpyDeviceToHost));
    tally_copy(DTOH, N * sizeof *y);
    EXPECT(host[0] == (float)(2 * launches));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    CHECK(cudaFreeHost(host));
    CHECK(cudaStreamDestroy(side));
    CHECK(cudaStreamDestroy(main_stream));
    return report();
}
