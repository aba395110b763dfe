/* SPDX-License-Identifier: Apache-2.0 */
/* `steady PATH [PAUSE_US]`: makes marks m0, m1, m2 … until it is killed, with a step after each
 * 20. The file PATH, which survives the kill, has the number of marks and the time of the last
 * one (ns since 1970). */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "preload/cprof.h"

enum { MARKS_OF_A_STEP = 20 };

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0666) : -1;
    useconds_t pause_us = argc > 2 ? (useconds_t)atoi(argv[2]) : 500;
    uint64_t last[2];
    if (fd < 0 || ftruncate(fd, sizeof last) != 0)
        return 2;
    volatile uint64_t *made = mmap(NULL, sizeof last, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (made == MAP_FAILED)
        return 2;
    for (uint64_t n = 0;;) {
        char name[32];
        struct timespec now;
        snprintf(name, sizeof name, "m%llu", (unsigned long long)n++);
        cprof_range_push("work");
        cprof_mark(name);
        cprof_range_pop();
        clock_gettime(CLOCK_REALTIME, &now);
        made[1] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        made[0] = n;
        usleep(pause_us);
        if (n % MARKS_OF_A_STEP == 0)
            cprof_step();
    }
}
