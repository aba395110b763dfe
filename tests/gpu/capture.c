/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that end during a stream capture in global mode, in which a forbidden call of any thread
 * spoils the capture. --captures captures begin, in step --at and every third step after it. Each
 * lasts over two step marks; from then on each step launches the graph. --steps N of at least
 * --step-ms. Prints the number of kernels that each step launched. */
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { N = 1024, STEPS = 64 };

static cudaStream_t stream, plain;
static cudaGraphExec_t graph;
static float *x;
static int per_graph;

static void begin(void)
{
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(gpu_add(stream, x, 1, N));
}

static void middle(void)
{
    CHECK(gpu_named(stream, GPU_GEMM, 20000));
}

static void end(void)
{
    cudaGraph_t captured;
    enum cudaStreamCaptureStatus status;
    CHECK(gpu_add(stream, x, 1, N));
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    CHECK(cudaStreamEndCapture(stream, &captured));
    if (graph)
        CHECK(cudaGraphExecDestroy(graph));
    CHECK(cudaGraphInstantiate(&graph, captured, 0));
    CHECK(cudaGraphDestroy(captured));
    per_graph = 3;
}

int main(int argc, char **argv)
{
    long steps = number(argc, argv, "steps", 12), at = number(argc, argv, "at", 1);
    long step_ms = number(argc, argv, "step-ms", 0), captures = number(argc, argv, "captures", 2);
    int launched[STEPS] = {0};
    bool capturing = false;
    EXPECT(steps <= STEPS);
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&plain, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&x, N * sizeof *x));
    for (int k = 0; k < 2; k++) { /* loads the kernels before any capture */
        CHECK(gpu_add(plain, x, 0, N));
        CHECK(gpu_named(plain, GPU_GEMM, 1000));
        launched[0] += 2;
    }
    for (long i = 0; i < steps; i++) {
        long since =
            i >= at && i < at + 3 * captures ? (i - at) % 3 : -1; /* steps since a capture began */
        if (since == 1)
            middle();
        if (since == 2) {
            end();
            capturing = false;
        }
        if (since == 0) {
            begin();
            capturing = true;
        }
        for (int k = 0; k < 2; k++, launched[i]++)
            CHECK(gpu_spin(plain, 10000)); /* another stream works meanwhile */
        if (graph && !capturing) {
            CHECK(cudaGraphLaunch(graph, stream));
            launched[i] += per_graph;
        }
        if (!capturing) /* a capturing stream cannot be waited for */
            CHECK(cudaStreamSynchronize(stream));
        nanosleep(&(struct timespec){step_ms / 1000, step_ms % 1000 * 1000000}, NULL);
        cprof_step();
    }
    CHECK(cudaDeviceSynchronize());
    printf("{\"steps\": [");
    for (long i = 0; i < steps; i++)
        printf("%s%d", i ? ", " : "", launched[i]);
    printf("]}\n");
    return 0;
}
