/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files without a descriptor of the program. */
#define _GNU_SOURCE
#include "writer/base/read_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/base/io_thread.h"
#include "writer/base/open_foreign.h"

#define ENTRIES 8192 /* bytes of a folder's entries per read */

size_t read_file(const char *path, char *text, size_t size)
{
    size_t used = 0;
    struct stat st;
    int saved = errno, fd = open_foreign(path, 0, UINT64_MAX, &st);
    while (fd >= 0 && used < size - 1) {
        ssize_t got = io_read(fd, text + used, size - 1 - used);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            break;
        used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        io_close(fd);
    text[used] = '\0';
    errno = saved;
    return used;
}

char thread_state(uint32_t tid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%u/stat", (unsigned)tid);
    const char *name_end = read_file(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

/* ---- folders, for glob(3) ---- */

struct folder {
    int fd;
    size_t at, end; /* offsets in `entries` */
    _Alignas(struct dirent) char entries[ENTRIES];
};

static void *open_folder(const char *path)
{
    struct folder *f = malloc(sizeof *f);
    int fd = f ? io_open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC, 0) : -1;
    if (fd < 0) {
        free(f);
        return NULL;
    }
    f->fd = fd;
    f->at = f->end = 0;
    return f;
}

/* The kernel's entries have the layout of struct dirent where off_t has 64 bits. */
static struct dirent *next_entry(void *folder)
{
    struct folder *f = folder;
    if (f->at >= f->end) {
        ssize_t got = io_getdents64(f->fd, f->entries, sizeof f->entries);
        if (got <= 0)
            return NULL;
        f->at = 0;
        f->end = (size_t)got;
    }
    struct dirent *entry = (struct dirent *)(void *)(f->entries + f->at);
    f->at += entry->d_reclen;
    return entry;
}

static void close_folder(void *folder)
{
    io_close(((struct folder *)folder)->fd);
    free(folder);
}

bool find_files(const char *pattern, glob_t *found)
{
    found->gl_opendir = open_folder;
    found->gl_readdir = next_entry;
    found->gl_closedir = close_folder;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
    return glob(pattern, GLOB_NOSORT | GLOB_ALTDIRFUNC, NULL, found) == 0;
}

bool other_threads_run(void)
{
    static const char all[] = "/proc/self/task/*";
    glob_t threads;
    bool run = false;
    long self = syscall(SYS_gettid);
    if (!find_files(all, &threads))
        return false;
    for (size_t i = 0; i < threads.gl_pathc && !run; i++) {
        long tid = atol(threads.gl_pathv[i] + sizeof all - 2);
        char state = tid != self ? thread_state((uint32_t)tid) : 0;
        run = state == 'R' || state == 'D';
    }
    globfree(&threads);
    return run;
}
