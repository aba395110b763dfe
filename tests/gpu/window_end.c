/* SPDX-License-Identifier: Apache-2.0 */
/* How long the stepping thread is held at the end of a window of --launches kernels of --ns each: the longest and the median of --windows, CPU and
 * wall-clock time, as `name value unit` lines on stderr. To be run with one warmup and one active step, for ever. */
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static double us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long windows = number(argc, argv, "windows", 9);
    long launches = number(argc, argv, "launches", 100000);
    long nanoseconds =
        number(argc, argv, "ns", 5000); /* of a kernel; a full stream holds launches up */
    double *cpu = calloc((size_t)windows, sizeof *cpu),
           *wall = calloc((size_t)windows, sizeof *wall);
    cudaStream_t stream;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (long w = 0; w < windows; w++) {
        cprof_step(); /* warmup is over, the window opens */
        for (long i = 0; i < launches; i++)
            CHECK(gpu_spin(stream, (uint64_t)nanoseconds));
        double cpu_before = us(CLOCK_THREAD_CPUTIME_ID), before = us(CLOCK_MONOTONIC);
        cprof_step(); /* the window ends */
        wall[w] = us(CLOCK_MONOTONIC) - before;
        cpu[w] = us(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
        CHECK(cudaStreamSynchronize(stream));
    }
    qsort(cpu, (size_t)windows, sizeof *cpu, ascending);
    qsort(wall, (size_t)windows, sizeof *wall, ascending);
    fprintf(stderr, "gpu_window_end_cpu_median %.2f us\ngpu_window_end_cpu_most %.2f us\n",
            cpu[windows / 2], cpu[windows - 1]);
    fprintf(stderr, "gpu_window_end_wall_median %.2f us\ngpu_window_end_wall_most %.2f us\n",
            wall[windows / 2], wall[windows - 1]);
    tally.kernels = (uint64_t)(windows * launches);
    tally.stream_syncs = tally.steps = (uint64_t)windows;
    return report();
}
