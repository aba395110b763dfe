/* SPDX-License-Identifier: Apache-2.0 */
/* Hands system calls to the thread of io_server.h and waits for their results. */
#define _GNU_SOURCE
#include "writer/base/io_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "writer/os/os.h"
#include "writer/base/io_server.h"
#include "writer/base/run_state.h"
#include "writer/writer.h"

#define STACK (64u << 10) /* bytes; io_serve() needs a few hundred */

static _Atomic(pthread_t) asking; /* the cprof thread; 0: calls are made directly */

/* cprof thread */
static struct io_server server;
static enum { NOT_YET, THERE, NONE } other;
static bool returns;
static clockid_t cpu_clock;
static bool has_clock;

static void give_turn(enum io_turn to)
{
    atomic_store(&server.turn, to);
    futex_wake(&server.turn);
}

static void wait_for_turn(void)
{
    while (atomic_load(&server.turn) == IO_SERVES)
        futex_wait(&server.turn, IO_SERVES, -1);
}

/* Starts the thread, with signals blocked and the affinity of the cprof thread. 0 or errno. */
static int start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, run_state_stack_size(STACK));
    atomic_store(&server.turn, IO_SERVES);
    run_state_thread(1);
    int error = pthread_create(&thread, &attr, io_serve, &server);
    pthread_attr_destroy(&attr);
    if (!error) {
        wait_for_turn();
        if (atomic_load(&server.turn) == IO_REFUSED)
            error = (int)-server.result;
    }
    if (error)
        run_state_thread(-1);
    else
        has_clock = pthread_getcpuclockid(thread, &cpu_clock) == 0;
    return error;
}

static bool is_there(void)
{
    if (other == NOT_YET) {
        int error = start();
        other = error ? NONE : THERE;
        if (error)
            log_debug("files are opened among the program's own: %s", strerror(error));
    }
    return other == THERE;
}

bool io_is_apart(void)
{
    return atomic_load_explicit(&asking, memory_order_relaxed) == pthread_self() && is_there();
}

long io_call(long number, long a, long b, long c, long d, long e, long f)
{
    if (!io_is_apart())
        return syscall(number, a, b, c, d, e, f);
    server.number = number;
    const long args[] = {a, b, c, d, e, f};
    memcpy(server.args, args, sizeof args);
    give_turn(IO_SERVES);
    wait_for_turn();
    if (server.result >= 0 || server.result < -4095)
        return server.result;
    errno = (int)-server.result;
    return -1;
}

void io_thread_begin(void)
{
    atomic_store(&asking, pthread_self());
}

void io_thread_end(void)
{
    io_thread_abandon();
    if (other != THERE || !returns)
        return;
    other = NONE;
    run_state_thread(-1);
    give_turn(IO_ENDS);
}

void io_thread_returns(void)
{
    returns = true;
}

void io_thread_abandon(void)
{
    /* a later thread may get the same pthread_t */
    atomic_store(&asking, (pthread_t)0);
}

uint64_t io_thread_cpu_ns(void)
{
    struct timespec t;
    if (other != THERE || !has_clock || clock_gettime(cpu_clock, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the calls ------------------------------------------------------------------------------- */

#define CALL(name, a, b, c, d, e, f)                                                               \
    io_call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

int io_open(const char *path, int flags, mode_t mode)
{
    return (int)CALL(openat, AT_FDCWD, path, flags, mode, 0, 0);
}

int io_close(int fd)
{
    return (int)CALL(close, fd, 0, 0, 0, 0, 0);
}

int io_fstat(int fd, struct stat *out)
{
    return (int)CALL(fstat, fd, out, 0, 0, 0, 0);
}

int io_look(int fd, struct file_identity *identity, uint64_t *size)
{
    struct statx now;
    struct stat st;
    if (CALL(statx, fd, "", AT_EMPTY_PATH, FILE_IDENTITY_MASK, &now, 0) == 0) {
        *identity = file_identity_of_statx(&now);
        *size = now.stx_size;
        return 0;
    }
    if (io_fstat(fd, &st) != 0) /* Linux before 4.11, or a filter refuses statx() */
        return -1;
    *identity = file_identity_of(&st);
    *size = (uint64_t)st.st_size;
    return 0;
}

ssize_t io_read(int fd, void *to, size_t n)
{
    return CALL(read, fd, to, n, 0, 0, 0);
}

ssize_t io_pread(int fd, void *to, size_t n, off_t at)
{
    return CALL(pread64, fd, to, n, at, 0, 0);
}

ssize_t io_write(int fd, const void *bytes, size_t n)
{
    return CALL(write, fd, bytes, n, 0, 0, 0);
}

ssize_t io_pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    return CALL(pwritev, fd, parts, n, at, 0, 0);
}

int io_ftruncate(int fd, off_t size)
{
    return (int)CALL(ftruncate, fd, size, 0, 0, 0, 0);
}

ssize_t io_getdents64(int fd, void *to, size_t n)
{
    return CALL(getdents64, fd, to, n, 0, 0, 0);
}

int io_socket(int domain, int type, int protocol)
{
    return (int)CALL(socket, domain, type, protocol, 0, 0, 0);
}

int io_bind(int fd, const struct sockaddr *address, unsigned size)
{
    return (int)CALL(bind, fd, address, size, 0, 0, 0);
}

int io_listen(int fd, int backlog)
{
    return (int)CALL(listen, fd, backlog, 0, 0, 0, 0);
}

int io_accept4(int fd, struct sockaddr *address, unsigned *size, int flags)
{
    return (int)CALL(accept4, fd, address, size, flags, 0, 0);
}

int io_getsockopt(int fd, int level, int name, void *to, unsigned *size)
{
    return (int)CALL(getsockopt, fd, level, name, to, size, 0);
}

ssize_t io_send(int fd, const void *bytes, size_t n, int flags)
{
    return CALL(sendto, fd, bytes, n, flags, NULL, 0);
}

ssize_t io_recv(int fd, void *to, size_t n, int flags)
{
    return CALL(recvfrom, fd, to, n, flags, NULL, NULL);
}

short io_poll(int fd, short events)
{
    struct pollfd look = {.fd = fd, .events = events};
    struct timespec none = {0};
    return CALL(ppoll, &look, 1, &none, NULL, 0, 0) > 0 ? look.revents : 0;
}

int io_write_all(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = io_write(fd, at, n);
        if (done == 0 || (done < 0 && errno != EINTR))
            return done < 0 ? errno : EIO;
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}
