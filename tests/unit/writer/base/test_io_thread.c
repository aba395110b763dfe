/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/base/io_thread.h and read_file.h: which table a descriptor is in, errors, and
 * calls without a separate table. */
#include "writer/writer.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static bool close_range_is_refused(void)
{
    return syscall(SYS_close_range, ~0u, ~0u, 0) != 0;
}

static int open_pipe(int ends[2])
{
    return (int)io_call(SYS_pipe2, (long)ends, O_CLOEXEC | O_NONBLOCK, 0, 0, 0, 0);
}

/* Whether an io_ call opens descriptors in the calling thread's table. */
static bool opens_in_callers_table(void)
{
    struct stat st;
    int fd = io_open("/dev/full", O_RDONLY | O_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    bool here = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 7);
    ck_assert_int_eq(io_close(fd), 0);
    return here;
}

START_TEST(uses_a_descriptor_table_of_its_own)
{
    int ends[2], mine[2];
    char byte = 0;
    io_thread_begin();
    ck_assert_int_eq(pipe(mine), 0);
    ck_assert(io_is_apart());
    ck_assert_int_eq(open_pipe(ends), 0);
    /* The thread's table is empty: it does not even have the standard descriptors. */
    ck_assert_int_eq(ends[0], 0);
    ck_assert_int_eq(ends[1], 1);
    ck_assert_int_eq(syscall(SYS_close_range, 3, ~0u, 0), 0);
    ck_assert_int_eq(open("/dev/null", O_RDONLY | O_CLOEXEC), 3);
    ck_assert_int_eq(io_write(ends[1], "x", 1), 1);
    ck_assert_int_eq(io_read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
    ck_assert_int_eq(io_poll(ends[0], POLLIN), 0);
    ck_assert_int_eq(io_write(ends[1], "y", 1), 1);
    ck_assert_int_eq(io_poll(ends[0], POLLIN), POLLIN);
}
END_TEST

START_TEST(holds_no_copy_of_the_programs_descriptors)
{
    int ends[2], other[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    io_thread_begin();
    ck_assert_int_eq(open_pipe(other), 0);
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 0);
}
END_TEST

/* Failing calls set errno as the C library does. Successful calls keep errno. */
START_TEST(reports_errors_through_errno)
{
    char text[8];
    if (_i)
        io_thread_begin();
    errno = 0;
    ck_assert_int_eq(io_open("/nowhere/at/all", O_RDONLY, 0), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(io_close(12345), -1);
    ck_assert_int_eq(errno, EBADF);
    int fd = io_open("/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(io_read(fd, NULL, 8), -1);
    ck_assert_int_eq(errno, EFAULT);
    ck_assert_int_eq(io_write_all(fd, "x", 1), EBADF);
    errno = 12345;
    ck_assert_int_ge(io_pread(fd, text, sizeof text, 0), 1);
    ck_assert_int_eq(io_close(fd), 0);
    ck_assert_int_eq(errno, 12345);
}
END_TEST

static int open_and_close(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd < 0 ? ENOENT : 0;
}

static int open_and_close_apart(const char *path)
{
    int fd = io_open(path, O_RDONLY | O_CLOEXEC, 0);
    return fd < 0 ? ENOENT : io_close(fd);
}

/* The type of the lock that another process finds on the file. */
static short lock_type_seen_by_others(int fd)
{
    struct flock lock = {.l_type = F_WRLCK};
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(fcntl(fd, F_GETLK, &lock) == 0 ? lock.l_type : 100);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return (short)WEXITSTATUS(status);
}

START_TEST(keeps_the_programs_file_locks)
{
    char path[] = "/tmp/cprof-io-XXXXXX";
    struct flock lock = {.l_type = F_WRLCK};
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_SETLK, &lock), 0);
    io_thread_begin();
    ck_assert_int_eq(open_and_close_apart(path), 0);
    ck_assert_int_eq(lock_type_seen_by_others(fd), F_WRLCK);
    ck_assert_int_eq(open_and_close(path),
                     0); /* POSIX locks: any close() in the program's table drops them */
    ck_assert_int_eq(lock_type_seen_by_others(fd), F_UNLCK);
    unlink(path);
}
END_TEST

static void *check_thread_is_not_served(void *unused)
{
    ck_assert(!io_is_apart());
    ck_assert(opens_in_callers_table());
    return unused;
}

START_TEST(serves_only_the_thread_that_began)
{
    pthread_t thread;
    ck_assert(opens_in_callers_table());
    io_thread_begin();
    ck_assert(!opens_in_callers_table());
    ck_assert_uint_eq(writer_threads(), 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, check_thread_is_not_served, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (_i)
        io_thread_returns();
    io_thread_end();
    ck_assert(opens_in_callers_table());
    ck_assert_uint_eq(writer_threads(), _i ? 0 : 1);
}
END_TEST

START_TEST(counts_its_cpu_time)
{
    static char room[1 << 20];
    io_thread_begin();
    ck_assert_uint_eq(io_thread_cpu_ns(), 0);
    int fd = io_open("/dev/zero", O_RDONLY | O_CLOEXEC, 0);
    uint64_t before = io_thread_cpu_ns();
    ck_assert_uint_gt(before, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_gt(io_read(fd, room, sizeof room), 0);
    ck_assert_uint_gt(io_thread_cpu_ns() - before, 1000000);
}
END_TEST

START_TEST(forked_child_makes_its_own_calls)
{
    int status;
    io_thread_begin();
    ck_assert(!opens_in_callers_table());
    pid_t child = fork();
    if (child == 0) {
        io_thread_abandon();
        _exit(opens_in_callers_table() ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(!opens_in_callers_table());
}
END_TEST

/* Makes close_range() fail as on a kernel before 5.9 (ENOSYS) or under a seccomp filter (EPERM). */
static void refuse_close_range(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(calls_run_in_the_caller_without_close_range)
{
    refuse_close_range(_i ? EPERM : ENOSYS);
    io_thread_begin();
    ck_assert(opens_in_callers_table());
    ck_assert(!io_is_apart());
    ck_assert_uint_eq(writer_threads(), 0);
    io_thread_end();
}
END_TEST

START_TEST(reads_files)
{
    char text[8], long_text[4096];
    if (_i)
        io_thread_begin();
    errno = 12345;
    ck_assert_uint_eq(read_file("/nowhere/at/all", text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(read_file("/proc/self/status", text, sizeof text), 7);
    ck_assert_int_eq(strncmp(text, "Name:\t", 6), 0);
    ck_assert_uint_gt(read_file("/proc/self/status", long_text, sizeof long_text), 100);
    ck_assert_int_eq(errno, 12345);
}
END_TEST

/* The folder's entries fill the directory buffer several times. */
START_TEST(finds_files_as_glob_does)
{
    char folder[] = "/tmp/cprof-io-XXXXXX", path[4096];
    glob_t found;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < 600; i++) {
        snprintf(path, sizeof path, "%s/rank%d.%s", folder, i, i % 3 ? "json" : "txt");
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    if (_i)
        io_thread_begin();
    snprintf(path, sizeof path, "%s/rank*.json", folder);
    ck_assert(find_files(path, &found));
    ck_assert_uint_eq(found.gl_pathc, 400);
    for (size_t i = 0; i < found.gl_pathc; i++)
        ck_assert_int_eq(access(found.gl_pathv[i], R_OK), 0);
    globfree(&found);
    snprintf(path, sizeof path, "%s/*.gz", folder);
    ck_assert(!find_files(path, &found));
    ck_assert(!find_files("/nowhere/*", &found));
    snprintf(path, sizeof path, "rm -r %s", folder);
    ck_assert_int_eq(system(path), 0);
}
END_TEST

static void *run_until(void *over)
{
    while (!atomic_load((_Atomic bool *)over))
        ;
    return NULL;
}

START_TEST(sees_whether_other_threads_run)
{
    static _Atomic bool over;
    pthread_t runner;
    ck_assert(!other_threads_run());
    ck_assert_int_eq(pthread_create(&runner, NULL, run_until, &over), 0);
    ck_assert(other_threads_run());
    atomic_store(&over, true);
    pthread_join(runner, NULL);
    ck_assert(!other_threads_run());
}
END_TEST

Suite *suite_io_thread(void)
{
    Suite *suite = suite_create("io_thread");
    TCase *tcase = tcase_create("io_thread");
    /* These tests need close_range(2), which kernels before 5.9 and some filters refuse. */
    if (!close_range_is_refused()) {
        tcase_add_test(tcase, uses_a_descriptor_table_of_its_own);
        tcase_add_test(tcase, holds_no_copy_of_the_programs_descriptors);
        tcase_add_test(tcase, keeps_the_programs_file_locks);
        tcase_add_loop_test(tcase, serves_only_the_thread_that_began, 0, 2);
        tcase_add_test(tcase, counts_its_cpu_time);
        tcase_add_test(tcase, forked_child_makes_its_own_calls);
    } else {
        fprintf(stderr, "io_thread: 6 tests skipped: close_range(2) is refused here\n");
    }
    tcase_add_loop_test(tcase, reports_errors_through_errno, 0, 2);
    tcase_add_loop_test(tcase, calls_run_in_the_caller_without_close_range, 0, 2);
    tcase_add_loop_test(tcase, reads_files, 0, 2);
    tcase_add_loop_test(tcase, finds_files_as_glob_does, 0, 2);
    tcase_add_test(tcase, sees_whether_other_threads_run);
    suite_add_tcase(suite, tcase);
    return suite;
}
