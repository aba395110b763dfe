/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls on descriptors that are not the program's: a thread of ours with a descriptor table
 * of its own makes them for the cprof thread.
 *
 * A descriptor of ours in the program's table is open for moments only, and still in its way:
 *
 *   closefrom(3), then open()    The program closes ours in the middle of a write and gets the
 *                                number for a checkpoint. The rest of our write lands there, and
 *                                our close() closes it (tests/e2e/c/descriptors.c shows it).
 *   close(0), then open()        It counts on the number that it gave back and gets another one.
 *   fcntl() locks                A process loses its locks on a file as soon as any descriptor of
 *                                that file is closed.
 *   RLIMIT_NOFILE, /proc/PID/fd  It meets its limit a descriptor early, and finds an unknown one.
 *
 * The cprof thread stays in the program's table: CUPTI, trace handlers, stderr, malloc hooks and
 * unwinders of other tools are there. It makes the calls below instead of open(2), write(2) and so
 * on. Each is handed to the other thread and waited for. That thread makes system calls and nothing
 * else (io_server.h); buffers, names and parsing stay on the cprof thread.
 *
 * The other thread starts with the first such call. Its table begins empty (close_range(2) with
 * CLOSE_RANGE_UNSHARE, Linux 5.9). Nothing is copied, so a pipe that the program closes is closed.
 * Where that is refused, where no thread is to be had, and on all other threads, a call is made
 * where it is asked for.
 */
#ifndef WRITER_BASE_IO_THREAD_H
#define WRITER_BASE_IO_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

struct sockaddr; /* sys/socket.h takes the names send and recv; socklen_t is unsigned */

/* From now on the calls of this thread go to the other one. cprof thread, once. */
void io_thread_begin(void);

/* Calls of this thread are made here again. The other thread waits until the process ends: at its
 * return the C library calls free(), and wrappers of pthread_create() run. cprof thread. */
void io_thread_end(void);

/* The other thread returns at io_thread_end() all the same: the process is to end with its last
 * thread, and the C library counts. cprof thread. */
void io_thread_returns(void);

/* In a forked child, which has neither of the two threads. */
void io_thread_abandon(void);

/* CPU time of the other thread so far, ns. cprof thread. */
uint64_t io_thread_cpu_ns(void);

/* Whether descriptors of this thread's calls are apart from the program's: only then may one stay
 * open. May start the other thread. Any thread. */
bool io_is_apart(void);

/* As the manual pages of the calls without io_ say: -1 and errno on failure. A descriptor is good
 * for other io_ calls of the same thread only. Any thread. */
int io_open(const char *path, int flags, mode_t mode);
int io_close(int fd);
int io_fstat(int fd, struct stat *out);
ssize_t io_read(int fd, void *to, size_t n);
ssize_t io_pread(int fd, void *to, size_t n, off_t at);
ssize_t io_write(int fd, const void *bytes, size_t n);
ssize_t io_pwritev(int fd, const struct iovec *parts, int n, off_t at);
int io_ftruncate(int fd, off_t size);
ssize_t io_getdents64(int fd, void *to, size_t n);
int io_socket(int domain, int type, int protocol);
int io_bind(int fd, const struct sockaddr *address, unsigned size);
int io_listen(int fd, int backlog);
int io_accept4(int fd, struct sockaddr *address, unsigned *size, int flags);
int io_getsockopt(int fd, int level, int name, void *to, unsigned *size);
ssize_t io_send(int fd, const void *bytes, size_t n, int flags);
ssize_t io_recv(int fd, void *to, size_t n, int flags);

/* Events among `events` that the descriptor has now, as poll(2) with a timeout of 0; 0: none. */
short io_poll(int fd, short events);

/* Any other system call: as syscall(2). */
long io_call(long number, long a, long b, long c, long d, long e, long f);

/* Writes all n bytes, in as many calls as it takes. 0 or an errno value. Any thread. */
int io_write_all(int fd, const void *bytes, size_t n);

#endif
