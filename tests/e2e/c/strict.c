/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a seccomp filter. For system calls that the program does not need, the filter
 * kills the process (argument "kill") or returns EPERM ("refuse"); "none" installs no filter.
 * Then it computes and ends. With a second argument it also marks ranges and steps. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/cprof.h"

#define ALLOW(name)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int lock_in(unsigned otherwise)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* System calls that this program and the C library need to compute, print and end. */
        ALLOW(write),
        ALLOW(writev),
        ALLOW(futex),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW(rt_sigreturn),
        ALLOW(restart_syscall),
        ALLOW(brk),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(clock_gettime),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    int refuse = argc > 1 && strcmp(argv[1], "refuse") == 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!(argc > 1 && strcmp(argv[1], "none") == 0) &&
        lock_in(refuse ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS)) {
        perror("seccomp");
        return 77;
    }
    unsigned long sum = 0;
    for (unsigned long i = 0; i < 100000; i++) {
        sum = sum * 31 + i;
        if (argc > 2) {
            cprof_range_push("work");
            cprof_range_pop();
        }
        if (argc > 2 && i % 1000 == 0)
            cprof_step();
    }
    printf("%lu\n", sum);
    return 3;
}
