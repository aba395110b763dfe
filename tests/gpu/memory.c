/* SPDX-License-Identifier: Apache-2.0 */
/* Memory use while graphs run: --parts parts of --nodes kernels, in graphs of 200 kernels. Before
 * them --mark steps begin, each with one graph. Prints `memory NODES DEVICE_BYTES RESIDENT_KB` to
 * stderr after each part. */
#include <unistd.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { GRAPH = 200, AHEAD = 500 /* graphs between two waits */ };

static cudaStream_t stream;

static cudaGraphExec_t make_graph(uint64_t nanoseconds)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < GRAPH; i++)
        CHECK(gpu_spin(stream, nanoseconds));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

static void wait_for_all(void)
{
    CHECK(cudaStreamSynchronize(stream));
    tally.stream_syncs++;
}

static void launch(cudaGraphExec_t exec, long graphs)
{
    for (long i = 1; i <= graphs; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
        tally.graph_launches++;
        tally.graph_kernels += GRAPH;
        if (i % AHEAD == 0)
            wait_for_all();
    }
    wait_for_all();
}

static long resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    EXPECT(f && fscanf(f, "%*d %ld", &pages) == 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    long nodes = number(argc, argv, "nodes", 20000), parts = number(argc, argv, "parts", 5);
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraphExec_t exec = make_graph((uint64_t)number(argc, argv, "ns", 500));
    for (long marks = number(argc, argv, "mark", 0); marks > 0; marks--) {
        cprof_step();
        launch(exec, 1);
        usleep(200000); /* the last window is written meanwhile */
    }
    for (long part = 0; part < parts; part++) {
        size_t unused = 0, total = 0;
        launch(exec, nodes / GRAPH);
        CHECK(cudaMemGetInfo(&unused, &total));
        fprintf(stderr, "memory %llu %llu %ld\n", (unsigned long long)tally.graph_kernels,
                (unsigned long long)(total - unused), resident_kb());
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
    return report();
}
