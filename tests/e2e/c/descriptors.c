/* SPDX-License-Identifier: Apache-2.0 */
/* `descriptors ROUNDS FILE`: makes marks and steps. In each round it closes all descriptors from
 * 3 on, as daemons do, opens FILE and writes four bytes. Descriptor 3 must be free, and nobody
 * else may write to the file or close it. Prints the number of rounds that violate each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/cprof.h"

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 0, other = 0, written = 0, closed = 0;
    if (argc < 3)
        return 2;
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
