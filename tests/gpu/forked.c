/* SPDX-License-Identifier: Apache-2.0 */
/* fork() after use of CUDA, --children N times. In the child every call fails, and the child ends
 * (--child exit, _exit or exec). The parent continues. --beside 1: another thread launches kernels
 * meanwhile. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static void child(const char *how)
{
    float *x;
    alarm(20); /* ends the test if a lock is never released */
    if (cudaMalloc((void **)&x, 64) == cudaSuccess || gpu_spin(0, 1000) == cudaSuccess)
        _exit(4);
    if (!strcmp(how, "exec"))
        execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(how, "exit"))
        exit(0);
    _exit(0);
}

static _Atomic int over;

/* Launches two milliseconds of kernels and waits for them, again and again. */
static void *launch(void *arg)
{
    cudaStream_t stream;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    while (!over) {
        for (int k = 0; k < 20; k++, tally.kernels++)
            CHECK(gpu_spin(stream, 100000));
        CHECK(cudaStreamSynchronize(stream));
        tally.stream_syncs++;
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t beside;
    long is_beside = number(argc, argv, "beside", 0);
    const char *how = option(argc, argv, "child", "exit");
    long children = number(argc, argv, "children", 2);
    CHECK(cudaSetDevice(0));
    if (is_beside)
        CHECK(pthread_create(&beside, NULL, launch, NULL));
    for (long i = 0; i <= children; i++) {
        int status = 0;
        for (int k = 0; k < 10; k++, tally.kernels++)
            CHECK(gpu_spin(0, 100000));
        if (i == children)
            break;
        pid_t pid = fork();
        if (pid == 0)
            child(how);
        EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    over = 1;
    if (is_beside)
        CHECK(pthread_join(beside, NULL));
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    return report();
}
