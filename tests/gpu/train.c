/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop without training, for pictures. Each of --steps copies a batch to --devices GPUs
 * and runs forward, backward and optimizer kernels; all-reduces on a second stream overlap the
 * backward pass. Ranges by cprof.h. --pause MS: a pause after the step --pause-after. */
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { MAX_DEVICES = 8, BATCH = 1 << 20, LAYERS = 6 };

static struct {
    cudaStream_t compute, network;
    cudaEvent_t ready, reduced;
    char *batch, *input;
} gpus[MAX_DEVICES];
static int n_devices;

static void work(long us)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += us * 1000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static void kernel(int device, cudaStream_t stream, int which, uint64_t us)
{
    CHECK(cudaSetDevice(device));
    CHECK(gpu_named(stream, which, us * 1000));
    tally.kernels++;
}

static void load(void)
{
    cprof_range_push("load batch");
    work(300);
    for (int d = 0; d < n_devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemcpyAsync(gpus[d].input, gpus[d].batch, BATCH, cudaMemcpyHostToDevice,
                              gpus[d].compute));
        tally_copy(HTOD, BATCH);
    }
    cprof_range_pop();
}

static void forward(void)
{
    cprof_range_push("forward");
    for (int layer = 0; layer < LAYERS; layer++)
        for (int d = 0; d < n_devices; d++) {
            work(15);
            kernel(d, gpus[d].compute, GPU_GEMM, 180);
            kernel(d, gpus[d].compute, GPU_ELEMENTWISE, 30);
            if (layer % 2)
                kernel(d, gpus[d].compute, GPU_SOFTMAX, 45);
        }
    cprof_range_pop();
}

static void backward(void)
{
    cprof_range_push("backward");
    for (int layer = LAYERS - 1; layer >= 0; layer--)
        for (int d = 0; d < n_devices; d++) {
            work(20);
            kernel(d, gpus[d].compute, GPU_GEMM, 240);
            kernel(d, gpus[d].compute, GPU_GEMM, 220);
            if (layer % 2)
                continue;
            CHECK(cudaEventRecord(gpus[d].ready, gpus[d].compute));
            CHECK(cudaStreamWaitEvent(gpus[d].network, gpus[d].ready, 0));
            kernel(d, gpus[d].network, GPU_ALL_REDUCE, 350);
            tally.event_records++;
            tally.event_waits++;
        }
    cprof_range_pop();
}

static void optimize(void)
{
    cprof_range_push("optimizer");
    for (int d = 0; d < n_devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaEventRecord(gpus[d].reduced, gpus[d].network));
        CHECK(cudaStreamWaitEvent(gpus[d].compute, gpus[d].reduced, 0));
        tally.event_records++;
        tally.event_waits++;
        for (int k = 0; k < 3; k++)
            kernel(d, gpus[d].compute, GPU_ADAM, 60);
    }
    cprof_range_pop();
    for (int d = 0; d < n_devices; d++) {
        CHECK(cudaStreamSynchronize(gpus[d].compute));
        tally.stream_syncs++;
    }
}

int main(int argc, char **argv)
{
    long steps = number(argc, argv, "steps", 12), wanted = number(argc, argv, "devices", 2);
    long pause_ms = number(argc, argv, "pause", 0), last = number(argc, argv, "pause-after", -1);
    CHECK(cudaGetDeviceCount(&n_devices));
    if (n_devices > wanted)
        n_devices = (int)wanted;
    if (n_devices > MAX_DEVICES)
        n_devices = MAX_DEVICES;
    for (int d = 0; d < n_devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaStreamCreateWithFlags(&gpus[d].compute, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&gpus[d].network, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&gpus[d].ready, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&gpus[d].reduced, cudaEventDisableTiming));
        CHECK(cudaMallocHost((void **)&gpus[d].batch, BATCH));
        CHECK(cudaMalloc((void **)&gpus[d].input, BATCH));
        memset(gpus[d].batch, d, BATCH);
    }
    for (long i = 0; i < steps; i++) {
        load();
        forward();
        backward();
        optimize();
        cprof_step();
        tally.steps++;
        if (i == last)
            nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000}, NULL);
    }
    return report();
}
