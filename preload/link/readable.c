/* SPDX-License-Identifier: Apache-2.0 */
/* Lets libunwind check memory without a pipe. libunwind reads one byte to empty its pipe, reopens
 * it on errors other than EAGAIN, then writes one byte (src/x86_64/Ginit.c,
 * src/mi/Gaddress_validator.c in master of August 2026; 1.6.2 makes the same calls). A transfer of
 * a single byte is therefore the pipe's. */
#define _GNU_SOURCE
#include "preload/link/readable.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/link/got.h"
#include "writer/writer.h"

#define SET_BYTES 8 /* size of the kernel's sigset_t */
#define TRIES     3

bool readable(const void *address)
{
    int saved = errno;
    uintptr_t within = (uintptr_t)address & ~(uintptr_t)(SET_BYTES - 1); /* in the same page */
    /* The kernel reads the set before it rejects INT_MAX as an operation. */
    long done = syscall(SYS_rt_sigprocmask, INT_MAX, within, NULL, SET_BYTES);
    bool can = done != 0 && errno == EINVAL;
    errno = saved;
    return can;
}

static int open_no_pipe(int ends[2], int flags)
{
    (void)flags;
    ends[0] = ends[1] = -1;
    return 0;
}

static ssize_t read_no_pipe(int fd, void *to, size_t n)
{
    if (n != 1)
        return read(fd, to, n);
    errno = EAGAIN; /* the pipe is empty and valid */
    return -1;
}

static ssize_t write_no_pipe(int fd, const void *from, size_t n)
{
    if (n != 1)
        return write(fd, from, n);
    if (readable(from))
        return 1;
    errno = EFAULT;
    return -1;
}

static long syscall_no_pipe(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_write && c == 1)
        return write_no_pipe((int)a, (const void *)b, 1); /* lint: allow */
    return syscall(number, a, b, c, d, e, f);
}

struct redirection {
    const char *name;
    void (*to)(void);
};

static const struct redirection redirections[] = {
    {"pipe2", (void (*)(void))open_no_pipe},
    {"read", (void (*)(void))read_no_pipe},
    {"write", (void (*)(void))write_no_pipe},
    {"syscall", (void (*)(void))syscall_no_pipe},
};

static void redirect(const struct got_object *o, const char *name, void *_Atomic *slot,
                     void *unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof redirections / sizeof *redirections; i++) {
        void *to;
        memcpy(&to, &redirections[i].to, sizeof to);
        if (strcmp(name, redirections[i].name) != 0)
            continue;
        enum got_written done = GOT_LATER; /* another thread may bind the entry meanwhile */
        for (int n = 0; n < TRIES && done == GOT_LATER; n++)
            done = got_write(o, slot, atomic_load(slot), to);
    }
}

static int look_at_library(struct dl_phdr_info *info, size_t size, void *library)
{
    const struct link_map *map = library;
    struct got_object o;
    (void)size;
    if (!got_describe(info, &o) || o.base != map->l_addr || o.dynamic != map->l_ld)
        return 0;
    got_entries(&o, redirect, NULL);
    return 1;
}

void readable_without_pipe(void *libunwind)
{
    struct link_map *map = NULL;
    if (dlinfo(libunwind, RTLD_DI_LINKMAP, (void *)&map) == 0 && map)
        loader_walk(look_at_library, map);
}
