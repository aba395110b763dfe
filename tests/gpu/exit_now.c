/* SPDX-License-Identifier: Apache-2.0 */
/* Ends right after launches, without waiting: --how return, exit, _exit, thread (exit in another thread) or abort; --ns
 * of each of --launches kernels. With --linger MS the process is there for so long after the driver went down. */
#include <pthread.h>
#include <unistd.h>

#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

static long linger_ms;

static void linger(void)
{
    usleep((useconds_t)linger_ms * 1000);
}

static void *leave(void *code)
{
    exit((int)(intptr_t)code);
}

int main(int argc, char **argv)
{
    const char *how = option(argc, argv, "how", "return");
    long launches = number(argc, argv, "launches", 10), ns = number(argc, argv, "ns", 1000000);
    linger_ms = number(argc, argv, "linger", 0);
    atexit(linger); /* before the driver's, which run first */
    CHECK(cudaSetDevice(0));
    for (long i = 0; i < launches; i++, tally.kernels++)
        CHECK(gpu_spin(0, (uint64_t)ns));
    int code = report();
    if (!strcmp(how, "exit"))
        exit(code);
    if (!strcmp(how, "_exit"))
        _exit(code);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, leave, (void *)(intptr_t)code));
        pthread_join(thread, NULL);
    }
    return code;
}
