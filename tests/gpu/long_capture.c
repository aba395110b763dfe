/* SPDX-License-Identifier: Apache-2.0 */
/* Captures a whole active step, --nodes launches one after the other, into one graph, and launches
 * the graph once. */
#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

int main(int argc, char **argv)
{
    long nodes = number(argc, argv, "nodes", 10000);
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t e;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(gpu_named(s, GPU_GEMM, 1000));
    CHECK(cudaStreamSynchronize(s));
    cprof_step();
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    for (long i = 0; i < nodes; i++)
        CHECK(gpu_named(s, GPU_GEMM, 1000));
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&e, g, 0));
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
    cprof_step();
    tally.kernels++;
    tally.graph_launches++;
    tally.graph_kernels += (uint64_t)nodes;
    tally.stream_syncs += 2;
    return report();
}
