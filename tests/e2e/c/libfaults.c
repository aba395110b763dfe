/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded after cprof: makes a call fail that cprof, on any thread, makes to the C library.
 * FAULT_AT: which call, from 1, of the kind FAULT_KIND ("file" or "memory"). FAULT_ERRNO: the
 * error. FAULT_TIMES: how many calls in a row, 1 by default. FAULT_REPORT: a file that gets the
 * number of such calls at exit. FAULT_DELAY_US: how much longer each file call takes. The
 * program's own calls never fail. File calls of cprof's second thread cannot be reached: combine
 * with a refused table (refuse_close_range()). */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { FILES, MEMORY, KINDS };

static uintptr_t low, high; /* bounds of cprof's code */
static _Atomic unsigned calls[KINDS];
static unsigned fault_at, fault_times = 1, delay_us;
static enum kind fault_kind = KINDS;
static int fault_errno;
static char report[4096]; /* copied, because the environment may be gone at exit */

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, "libcprof.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            low = info->dlpi_addr + p->p_vaddr;
            high = low + p->p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void start(void)
{
    const char *kind = getenv("FAULT_KIND"), *at = getenv("FAULT_AT"), *how = getenv("FAULT_ERRNO"),
               *times = getenv("FAULT_TIMES"), *path = getenv("FAULT_REPORT"),
               *delay = getenv("FAULT_DELAY_US");
    dl_iterate_phdr(find_library, NULL);
    fault_kind = kind && strcmp(kind, "memory") == 0 ? MEMORY : FILES;
    fault_at = at ? (unsigned)atoi(at) : 0;
    fault_errno = how ? atoi(how) : EIO;
    fault_times = times ? (unsigned)atoi(times) : 1;
    delay_us = delay ? (unsigned)atoi(delay) : 0;
    snprintf(report, sizeof report, "%s", path ? path : "");
}

__attribute__((destructor)) static void finish(void)
{
    FILE *f = report[0] ? fopen(report, "w") : NULL;
    if (!f)
        return;
    fprintf(f, "%u %u\n", calls[FILES], calls[MEMORY]);
    fclose(f);
}

static int fails(enum kind kind, void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    if (from < low || from >= high)
        return 0;
    unsigned n = atomic_fetch_add(&calls[kind], 1) + 1;
    if (kind == FILES && delay_us)
        usleep(delay_us);
    if (kind != fault_kind || fault_at == 0 || n < fault_at || n - fault_at >= fault_times)
        return 0;
    errno = fault_errno;
    return 1;
}

static int is_of_file(long number)
{
    static const long calls_of_files[] = {
        SYS_openat,    SYS_close,      SYS_fstat,  SYS_read, SYS_pread64, SYS_write,  SYS_pwritev,
        SYS_ftruncate, SYS_getdents64, SYS_socket, SYS_bind, SYS_listen,  SYS_accept4};
    for (unsigned i = 0; i < sizeof calls_of_files / sizeof *calls_of_files; i++)
        if (number == calls_of_files[i])
            return 1;
    return 0;
}

#define FAILS(kind) fails(kind, __builtin_return_address(0))
#define NEXT(name)  ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    return FAILS(MEMORY) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return FAILS(MEMORY) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return FAILS(MEMORY) ? NULL : __libc_realloc(old, size);
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = FAILS(MEMORY) ? NULL : __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *strndup(const char *text, size_t most)
{
    size_t size = strnlen(text, most);
    char *copy = FAILS(MEMORY) ? NULL : __libc_malloc(size + 1);
    if (copy) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    return copy;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    return FAILS(MEMORY) ? ENOMEM : NEXT(posix_memalign)(out, alignment, size);
}

int vasprintf(char **restrict out, const char *restrict format, va_list args)
{
    return FAILS(MEMORY) ? -1 : NEXT(vasprintf)(out, format, args);
}

/* The name in code built with _FORTIFY_SOURCE. */
int __vasprintf_chk(char **out, int flag, const char *format, va_list args);
int __vasprintf_chk(char **out, int flag, const char *format, va_list args)
{
    (void)flag;
    return FAILS(MEMORY) ? -1 : NEXT(vasprintf)(out, format, args);
}

int setenv(const char *name, const char *value, int replace)
{
    return FAILS(MEMORY) ? -1 : NEXT(setenv)(name, value, replace);
}

int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    return FAILS(MEMORY) ? EAGAIN : NEXT(pthread_key_create)(key, end);
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    return FAILS(MEMORY) ? MAP_FAILED : NEXT(mmap)(at, size, prot, flags, fd, offset);
}

int mprotect(void *at, size_t size, int prot)
{
    return FAILS(MEMORY) ? -1 : NEXT(mprotect)(at, size, prot);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    return FAILS(MEMORY) ? EAGAIN : NEXT(pthread_create)(thread, attr, body, arg);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return FAILS(FILES) ? -1 : NEXT(open)(path, flags, mode);
}

/* fopen() is left out: cprof opens nothing by it but passes on the program's calls
 * (preload/hooks/thread_count.c). */

/* io_open() and the like, where cprof calls them in the program's table
 * (writer/base/io_thread.h). Linux closes the file even if close() fails. */
long syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    int bad = is_of_file(number) && FAILS(FILES);
    long rc =
        bad && number != SYS_close ? -1 : NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (bad)
        errno = fault_errno;
    return bad ? -1 : rc;
}

ssize_t read(int fd, void *out, size_t n)
{
    return FAILS(FILES) ? -1 : NEXT(read)(fd, out, n);
}

ssize_t pread(int fd, void *out, size_t n, off_t at)
{
    return FAILS(FILES) ? -1 : NEXT(pread)(fd, out, n, at);
}

ssize_t readlink(const char *restrict path, char *restrict out, size_t n)
{
    return FAILS(FILES) ? -1 : NEXT(readlink)(path, out, n);
}

char *realpath(const char *restrict path, char *restrict out)
{
    return FAILS(FILES) ? NULL : NEXT(realpath)(path, out);
}

char *getcwd(char *out, size_t n)
{
    return FAILS(FILES) ? NULL : NEXT(getcwd)(out, n);
}

DIR *opendir(const char *path)
{
    return FAILS(FILES) ? NULL : NEXT(opendir)(path);
}

int access(const char *path, int mode)
{
    return FAILS(FILES) ? -1 : NEXT(access)(path, mode);
}

FILE *fdopen(int fd, const char *mode)
{
    return FAILS(FILES) ? NULL : NEXT(fdopen)(fd, mode);
}

int socket(int domain, int type, int protocol)
{
    return FAILS(FILES) ? -1 : NEXT(socket)(domain, type, protocol);
}

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    return FAILS(FILES) ? -1 : NEXT(bind)(fd, address, size);
}

int listen(int fd, int backlog)
{
    return FAILS(FILES) ? -1 : NEXT(listen)(fd, backlog);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    return FAILS(FILES) ? -1 : NEXT(write)(fd, bytes, n);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    return FAILS(FILES) ? -1 : NEXT(pwritev)(fd, parts, n, at);
}

int ftruncate(int fd, off_t size)
{
    return FAILS(FILES) ? -1 : NEXT(ftruncate)(fd, size);
}

/* Linux closes the file even if close() fails. */
int close(int fd)
{
    int bad = FAILS(FILES), rc = NEXT(close)(fd);
    if (bad)
        errno = fault_errno;
    return bad ? -1 : rc;
}

int link(const char *from, const char *to)
{
    return FAILS(FILES) ? -1 : NEXT(link)(from, to);
}

int rename(const char *from, const char *to)
{
    return FAILS(FILES) ? -1 : NEXT(rename)(from, to);
}

int unlink(const char *path)
{
    return FAILS(FILES) ? -1 : NEXT(unlink)(path);
}

int mkdir(const char *path, mode_t mode)
{
    return FAILS(FILES) ? -1 : NEXT(mkdir)(path, mode);
}

int stat(const char *restrict path, struct stat *restrict out)
{
    return FAILS(FILES) ? -1 : NEXT(stat)(path, out);
}

int lstat(const char *restrict path, struct stat *restrict out)
{
    return FAILS(FILES) ? -1 : NEXT(lstat)(path, out);
}

int fstat(int fd, struct stat *out)
{
    return FAILS(FILES) ? -1 : NEXT(fstat)(fd, out);
}

int statvfs(const char *restrict path, struct statvfs *restrict out)
{
    return FAILS(FILES) ? -1 : NEXT(statvfs)(path, out);
}
