/* SPDX-License-Identifier: Apache-2.0 */
/* fork() after CUDA was used: in the child every call fails and the child exits (--child exit, _exit or exec); the
 * parent goes on. --children N of them. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static void child(const char *how)
{
    float *x;
    alarm(20); /* a lock that nobody gives back ends the test */
    if (cudaMalloc((void **)&x, 64) == cudaSuccess || gpu_spin(0, 1000) == cudaSuccess)
        _exit(4);
    if (!strcmp(how, "exec"))
        execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(how, "exit"))
        exit(0);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *how = option(argc, argv, "child", "exit");
    long children = number(argc, argv, "children", 2);
    CHECK(cudaSetDevice(0));
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
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    return report();
}
