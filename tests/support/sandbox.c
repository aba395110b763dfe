/* SPDX-License-Identifier: Apache-2.0 */
/* Runs code under seccomp filters. Main thread. */
#include "tests/support/sandbox.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc.h"

#define NO_FILTER 77

#define ANSWER(name, action)                                                                       \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

static bool install(struct sock_filter *rows, size_t n)
{
    struct sock_fprog filter = {(unsigned short)n, rows};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

static bool forbid_all(void)
{
    struct sock_filter rows[] = {
        NUMBER,
        ANSWER(clock_gettime, SECCOMP_RET_ALLOW),
        ANSWER(exit_group, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    return install(rows, sizeof rows / sizeof *rows);
}

bool sandbox_deny_threads(void)
{
    struct sock_filter rows[] = {
        NUMBER,
        ANSWER(clone3, SECCOMP_RET_ERRNO | ENOSYS),           /* glibc then calls clone() */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3), /* a fork is allowed */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return alloc_is_ours && install(rows, sizeof rows / sizeof *rows);
}

int sandbox_run(void (*prepare)(void), void (*body)(void))
{
    if (!alloc_is_ours)
        return -1; /* sanitizers make system calls of their own */
    pid_t child = fork();
    if (child == 0) {
        prepare();
        if (!forbid_all())
            _exit(NO_FILTER);
        body();
        syscall(SYS_exit_group, 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WEXITSTATUS(status) == NO_FILTER ? -1 : WEXITSTATUS(status);
}
