/* SPDX-License-Identifier: Apache-2.0 */
/* Ends right after --launches launches of --ns each, without waiting for the kernels. --how:
 * return, exit, _exit, thread (exit in another thread) or abort. --linger MS: the process stays for
 * this time after the driver has shut down. --when-written FOLDER: waits, after the first launch,
 * until the folder contains a part file. */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
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

static bool holds_a_recording(const char *folder)
{
    bool found = false;
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && !found && (entry = readdir(open));)
        found = strstr(entry->d_name, ".part") != NULL;
    if (open)
        closedir(open);
    return found;
}

int main(int argc, char **argv)
{
    const char *how = option(argc, argv, "how", "return");
    const char *folder = option(argc, argv, "when-written", NULL);
    long launches = number(argc, argv, "launches", 10), ns = number(argc, argv, "ns", 1000000);
    linger_ms = number(argc, argv, "linger", 0);
    atexit(linger); /* registered before the driver's handlers, so it runs after them */
    CHECK(cudaSetDevice(0));
    for (long i = 0; i < launches; i++, tally.kernels++) {
        CHECK(gpu_spin(0, (uint64_t)ns));
        while (i == 0 && folder && !holds_a_recording(folder))
            usleep(10000);
    }
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
