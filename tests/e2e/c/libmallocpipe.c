/* SPDX-License-Identifier: Apache-2.0 */
/* A preloaded memory profiler. At each allocation it checks an address as libunwind does: it
 * writes the byte there into a pipe. If the pipe's descriptors are invalid, it opens a new pipe.
 * They are valid in one descriptor table only.
 *
 * MALLOC_PIPE_REPORT names a file. At exit it gets the number of calls on threads named cprof,
 * and of those on threads named cprof-files. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *gone);

static int ends[2] = {-1, -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;
static _Atomic unsigned on_cprof, on_files;

static void open_anew(void)
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        ends[0] = ends[1] = -1;
}

static void count_thread(void)
{
    char name[17] = "";
    prctl(PR_GET_NAME, name, 0, 0, 0);
    on_cprof += strcmp(name, "cprof") == 0;
    on_files += strcmp(name, "cprof-files") == 0;
}

/* The check that libunwind makes before it reads from a stack. */
static void look_at(const void *address)
{
    char byte;
    int saved = errno;
    if (inside)
        return;
    inside = 1;
    count_thread();
    pthread_mutex_lock(&lock);
    if (read(ends[0], &byte, 1) < 0 && errno != EAGAIN)
        open_anew();
    if (write(ends[1], address, 1) < 0 && errno == EBADF)
        open_anew();
    pthread_mutex_unlock(&lock);
    inside = 0;
    errno = saved;
}

void *malloc(size_t size)
{
    look_at(&size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    look_at(&size);
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    look_at(&size);
    return __libc_realloc(old, size);
}

void free(void *gone)
{
    look_at(&gone);
    __libc_free(gone);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("MALLOC_PIPE_REPORT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "%u %u\n", on_cprof, on_files);
    fclose(f);
}
