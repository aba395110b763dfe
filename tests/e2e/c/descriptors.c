/* SPDX-License-Identifier: Apache-2.0 */
/* `descriptors ROUNDS FILE`: makes marks and steps. In each round it closes all descriptors from
 * 3 on, as daemons do, opens FILE and writes four bytes. Descriptor 3 must be free, and nobody
 * else may write to the file or close it. Prints the number of rounds that violate each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/cprof.h"

/* glibc's free() opens a file of /proc when a thread other than the first gives back memory for the
 * first time (scripts/LIMITS.md). The program's own thread does that before the rounds. */
static void *give_memory_back(void *arg)
{
    void *blocks[16];
    for (int i = 0; i < 16; i++)
        blocks[i] = malloc(60000);
    for (int i = 15; i >= 0; i--)
        free(blocks[i]);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int rounds = argc > 1 ? atoi(argv[1]) : 0, other = 0, written = 0, closed = 0;
    if (argc < 3)
        return 2;
    pthread_create(&thread, NULL, give_memory_back, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < rounds; i++) {
        struct stat st;
        syscall(SYS_close_range, 3, ~0u, 0);
        int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        other += fd != 3 || write(fd, "mine", 4) != 4;
        cprof_mark("round");
        usleep(300);
        if (fstat(fd, &st) != 0)
            closed++;
        else if (st.st_size != 4)
            written++;
        if (i % 20 == 19)
            cprof_step();
    }
    printf("other numbers %d, written to %d, closed %d\n", other, written, closed);
    return 0;
}
