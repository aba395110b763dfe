/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long cprof delays the stepping thread. Prints `name value unit` lines to stderr:
 * - at the end of a window of --launches kernels of --ns each: the longest and the median delay of
 *   --windows windows, in CPU and wall-clock time
 * - when a window opens: the step mark and the first launch after it, the first window and the
 *   median
 * - in the --rest steps after each window, in one of which cprof disables the activity kinds: the
 *   longest step mark, the first window and the median
 *
 * Run with a schedule of one warmup and one active step without end; or with the first step
 * skipped, then one active and --rest + 1 wait steps without end. */
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

/* The first window is special: cprof enables CUPTI with an existing context for the first time. */
static void say(const char *what, double *wall, long n)
{
    double first = wall[0];
    qsort(wall, (size_t)n, sizeof *wall, ascending);
    fprintf(stderr, "gpu_window_%s_first %.2f us\ngpu_window_%s_median %.2f us\n", what, first,
            what, wall[n / 2]);
}

/* A step of one kernel and 5 ms. Returns the duration of its step mark. */
static double rest_step(cudaStream_t stream, uint64_t nanoseconds)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    CHECK(gpu_spin(stream, nanoseconds));
    CHECK(cudaStreamSynchronize(stream));
    nanosleep(&pause, NULL);
    double before = us(CLOCK_MONOTONIC);
    cprof_step();
    return us(CLOCK_MONOTONIC) - before;
}

int main(int argc, char **argv)
{
    long windows = number(argc, argv, "windows", 9);
    long launches = number(argc, argv, "launches", 100000);
    /* of a kernel; launches into a full stream wait */
    long nanoseconds = number(argc, argv, "ns", 5000);
    long rest = number(argc, argv, "rest", 0);
    double *cpu = calloc((size_t)windows, sizeof *cpu),
           *wall = calloc((size_t)windows, sizeof *wall),
           *edge = calloc((size_t)windows, sizeof *edge),
           *launch = calloc((size_t)windows, sizeof *launch),
           *resting = calloc((size_t)windows, sizeof *resting);
    cudaStream_t stream;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(gpu_spin(stream, (uint64_t)nanoseconds)); /* loads the kernel */
    CHECK(cudaStreamSynchronize(stream));
    for (long w = 0; w < windows; w++) {
        double before = us(CLOCK_MONOTONIC);
        cprof_step(); /* warmup is over, the window opens */
        edge[w] = us(CLOCK_MONOTONIC) - before;
        CHECK(gpu_spin(stream, (uint64_t)nanoseconds));
        launch[w] = us(CLOCK_MONOTONIC) - before - edge[w];
        for (long i = 1; i < launches; i++)
            CHECK(gpu_spin(stream, (uint64_t)nanoseconds));
        double cpu_before = us(CLOCK_THREAD_CPUTIME_ID);
        before = us(CLOCK_MONOTONIC);
        cprof_step(); /* the window ends */
        wall[w] = us(CLOCK_MONOTONIC) - before;
        cpu[w] = us(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
        CHECK(cudaStreamSynchronize(stream));
        for (long i = 0; i < rest; i++) {
            double edge_us = rest_step(stream, (uint64_t)nanoseconds);
            resting[w] = edge_us > resting[w] ? edge_us : resting[w];
        }
    }
    qsort(cpu, (size_t)windows, sizeof *cpu, ascending);
    qsort(wall, (size_t)windows, sizeof *wall, ascending);
    fprintf(stderr, "gpu_window_end_cpu_median %.2f us\ngpu_window_end_cpu_most %.2f us\n",
            cpu[windows / 2], cpu[windows - 1]);
    fprintf(stderr, "gpu_window_end_wall_median %.2f us\ngpu_window_end_wall_most %.2f us\n",
            wall[windows / 2], wall[windows - 1]);
    say("open_edge", edge, windows);
    say("open_launch", launch, windows);
    if (rest)
        say("rest_edge", resting, windows);
    tally.kernels = (uint64_t)(windows * (launches + rest)) + 1;
    tally.steps = (uint64_t)(windows * (1 + rest));
    tally.stream_syncs = (uint64_t)(windows * (1 + rest)) + 1;
    return report();
}
