/* SPDX-License-Identifier: Apache-2.0 */
/* Step marks during a kernel that waits for a flag. Another thread sets the flag after cudaMalloc,
 * cudaMemcpy and a launch; NCCL kernels wait for another rank in this way. --rounds, each with
 * --edges step marks. A kernel gives up after --limit ms. Prints how many kernels ended by their
 * flag: all, unless something made CUDA wait for the device. */
#include <pthread.h>
#include <time.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { N = 1024 };

static volatile int *flag; /* [0] the kernel may end, [1] the kernel saw the flag */
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

/* The first call comes late: CUPTI may miss the calls of a thread that was in one when the calls
 * were switched off (cupti/README.md, known faults). */
static void *use_device_later(void *arg)
{
    pause_ms(10);
    CHECK(cudaSetDevice(0));
    use_device();
    return arg;
}

/* Whether the kernel ended by its flag. */
static int round_of(long edges, uint64_t limit_ns)
{
    pthread_t thread;
    flag[0] = flag[1] = 0;
    CHECK(gpu_wait(waiting, flag, limit_ns));
    CHECK(pthread_create(&thread, NULL, use_device_later, NULL));
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
    /* Loads the kernels, because CUDA may wait for the device while it loads. */
    flag[0] = 1;
    CHECK(gpu_wait(waiting, flag, 1));
    use_device();
    CHECK(cudaDeviceSynchronize());
    for (long i = 0; i < rounds; i++)
        by_flag += round_of(edges, limit_ns);
    printf("{\"rounds\": %ld, \"by_flag\": %d}\n", rounds, by_flag);
    return 0;
}
