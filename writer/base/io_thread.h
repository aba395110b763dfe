/* SPDX-License-Identifier: Apache-2.0 */
/* System calls on descriptors outside the program's table: a thread with a descriptor table of its
 * own makes them for the cprof thread.
 *
 * A descriptor of cprof in the program's table would be in its way, even for a moment:
 *
 *   closefrom(3), then open()    The program closes cprof's descriptor during a write and reuses
 *                                the number for a checkpoint. The rest of cprof's write lands
 *                                there, and cprof's close() closes it
 *                                (tests/e2e/c/descriptors.c shows it).
 *   close(0), then open()        The program expects the number that it freed and gets another.
 *   fcntl() locks                A process loses its locks on a file when any descriptor of that
 *                                file is closed.
 *   RLIMIT_NOFILE, /proc/PID/fd  The program meets its limit a descriptor early, and finds an
 *                                unknown descriptor.
 *
 * The cprof thread stays in the program's table, because CUPTI, trace handlers, stderr, malloc
 * hooks and unwinders of other tools use it. It makes the calls below instead of open(2), write(2)
 * and so on. Each call is handed to the other thread and waited for. That thread makes system calls
 * and nothing else (io_server.h).
 *
 * The other thread starts with the first call. Its table begins empty (close_range(2) with
 * CLOSE_RANGE_UNSHARE, Linux 5.9), so a pipe that the program closes is closed. A call is made
 * directly where that is refused, where no thread can be made, and on all other threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/* not from sys/socket.h, whose names send and recv would clash; socklen_t is unsigned */
struct sockaddr;

struct file_identity;

/* From now on, calls of this thread go to the other thread. cprof thread, once. */
void io_thread_begin(void);

/* Calls of this thread are made directly again. The other thread stays until the process ends: when
 * a thread returns, the C library calls free(), and wrappers of pthread_create() run. cprof
 * thread. */
void io_thread_end(void);

/* Makes the other thread return at io_thread_end() after all: the process ends with its last
 * thread, and the C library counts threads. cprof thread. */
void io_thread_returns(void);

/* For a forked child, which has neither thread. */
void io_thread_abandon(void);

/* CPU time of the other thread in ns. cprof thread. */
uint64_t io_thread_cpu_ns(void);

/* True when this thread's descriptors are apart from the program's. Only then may one stay open.
 * May start the other thread. Any thread. */
bool io_is_apart(void);

/* As the calls without io_: -1 and errno on failure. A descriptor is valid only for io_ calls of
 * the same thread. Any thread. */
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

/* Those of `events` that the descriptor has now, as poll(2) with timeout 0; 0: none. */
short io_poll(int fd, short events);

/* Any other system call, as syscall(2). */
long io_call(long number, long a, long b, long c, long d, long e, long f);

/* The identity of an open file, with its time of birth, and its *size in bytes. 0, or -1 and errno.
 * Any thread. */
int io_look(int fd, struct file_identity *identity, uint64_t *size);

/* Writes all n bytes, in as many calls as needed. 0 or errno. Any thread. */
int io_write_all(int fd, const void *bytes, size_t n);
