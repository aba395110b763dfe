/* SPDX-License-Identifier: Apache-2.0 */
/* Step marks while a kernel runs that ends only when another thread has called cudaMalloc,
 * cudaMemcpy and a launch, as kernels of NCCL do that wait for another rank. --rounds, each with
 * --edges step marks; a kernel that has waited for --limit ms gives up. Prints how many kernels
 * ended by their flag: all of them, unless something made CUDA wait for the device. */
#include <pthread.h>
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { N = 1024 };

static volatile int *flag; /* [0] the kernel may end, [1] it ended by that */
static cudaStream_t waiting, others;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void use_device(void)
{
    float host[N] = {0}, *x;
    CHECK(cudaMalloc((void **)&x, sizeof host));
    CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(gpu_add(others, x, 1, N));
    flag[0] = 1;
    CHECK(cudaStreamSynchronize(others));
    CHECK(cudaFree(x));
}

static void *other(void *arg)
{
    CHECK(cudaSetDevice(0));
    pause_ms(10);
    use_device();
    return arg;
}

/* True when the kernel ended by its flag. */
static int round_of(long edges, uint64_t limit_ns)
{
    pthread_t thread;
    flag[0] = flag[1] = 0;
    CHECK(gpu_wait(waiting, flag, limit_ns));
    CHECK(pthread_create(&thread, NULL, other, NULL));
    for (long i = 0; i < edges; i++) {
        cprof_step();
        pause_ms(2);
    }
    pthread_join(thread, NULL);
    CHECK(cudaStreamSynchronize(waiting));
    return flag[1];
}

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 5), edges = number(argc, argv, "edges", 12);
    uint64_t limit_ns = (uint64_t)number(argc, argv, "limit", 3000) * 1000000;
    int by_flag = 0;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&others, cudaStreamNonBlocking));
    CHECK(cudaMallocHost((void **)&flag, 2 * sizeof *flag));
    /* Loads the kernels: CUDA may wait for the device as it does so. */
    flag[0] = 1;
    CHECK(gpu_wait(waiting, flag, 1));
    use_device();
    CHECK(cudaDeviceSynchronize());
    for (long i = 0; i < rounds; i++)
        by_flag += round_of(edges, limit_ns);
    printf("{\"rounds\": %ld, \"by_flag\": %d}\n", rounds, by_flag);
    return 0;
}
