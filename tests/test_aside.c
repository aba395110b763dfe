/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/aside.h: whose descriptors work aside has, who runs what, and what is done where it cannot be had. */
#include "writer/writer.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool refused(void)
{
    return syscall(SYS_close_range, ~0u, ~0u, 0) != 0;
}

/* The thread that runs it. */
static int note_thread(void *thread)
{
    *(pthread_t *)thread = pthread_self();
    return 0;
}

static bool runs_here(void)
{
    pthread_t thread;
    ck_assert_int_eq(aside_run(note_thread, &thread), 0);
    return pthread_equal(thread, pthread_self());
}

static int open_pipe(void *ends)
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;
}

static int write_one(void *ends)
{
    return write(((int *)ends)[1], "x", 1) == 1 ? 0 : errno;
}

static int read_one(void *ends)
{
    char byte = 0;
    return read(((int *)ends)[0], &byte, 1) == 1 && byte == 'x' ? 0 : EIO;
}

START_TEST(descriptors_are_not_the_programs)
{
    int ends[2], mine[2];
    aside_begin(NULL);
    ck_assert_int_eq(pipe(mine), 0);
    ck_assert_int_eq(aside_run(open_pipe, ends), 0);
    ck_assert(!runs_here());
    /* an empty table: not even the standard ones */
    ck_assert_int_eq(ends[0], 0);
    ck_assert_int_eq(ends[1], 1);
    ck_assert_int_eq(syscall(SYS_close_range, 3, ~0u, 0), 0);
    ck_assert_int_eq(open("/dev/null", O_RDONLY | O_CLOEXEC), 3);
    ck_assert_int_eq(aside_run(write_one, ends), 0);
    ck_assert_int_eq(aside_run(read_one, ends), 0);
}
END_TEST

START_TEST(a_pipe_that_the_program_closes_is_closed)
{
    int ends[2], other[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    aside_begin(NULL);
    ck_assert_int_eq(aside_run(open_pipe, other), 0);
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 0);
}
END_TEST

static int open_and_close(void *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd < 0 ? ENOENT : 0;
}

/* The lock that another process meets. */
static short lock_of(int fd)
{
    struct flock lock = {.l_type = F_WRLCK};
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(fcntl(fd, F_GETLK, &lock) == 0 ? lock.l_type : 100);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return (short)WEXITSTATUS(status);
}

START_TEST(locks_of_the_program_stay)
{
    char path[] = "/tmp/cprof-aside-XXXXXX";
    struct flock lock = {.l_type = F_WRLCK};
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_SETLK, &lock), 0);
    aside_begin(NULL);
    ck_assert_int_eq(aside_run(open_and_close, path), 0);
    ck_assert_int_eq(lock_of(fd), F_WRLCK);
    ck_assert_int_eq(open_and_close(path), 0); /* what it would be in the program's table */
    ck_assert_int_eq(lock_of(fd), F_UNLCK);
    unlink(path);
}
END_TEST

struct there_and_back {
    pthread_t asked, outer, back, inner, last;
};

static int note_inner(void *arg)
{
    return note_thread(&((struct there_and_back *)arg)->inner), 3;
}

static int go_back(void *arg)
{
    struct there_and_back *t = arg;
    note_thread(&t->back);
    return aside_run(note_inner, t) + 10;
}

static int go_there(void *arg)
{
    struct there_and_back *t = arg;
    note_thread(&t->outer);
    int result = aside_back(go_back, t) + 100;
    note_thread(&t->last);
    return result;
}

START_TEST(work_goes_there_and_back)
{
    struct there_and_back t = {.asked = pthread_self()};
    aside_begin(NULL);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(aside_run(go_there, &t), 113);
    ck_assert(pthread_equal(t.back, t.asked));
    ck_assert(!pthread_equal(t.outer, t.asked));
    ck_assert(pthread_equal(t.inner, t.outer) && pthread_equal(t.last, t.outer));
    ck_assert_int_eq(aside_back(note_inner, &t), 3);
    ck_assert(pthread_equal(t.inner, t.asked));
}
END_TEST

static void *is_elsewhere(void *unused)
{
    ck_assert(runs_here());
    return unused;
}

START_TEST(only_the_thread_that_began_is_served)
{
    pthread_t thread;
    ck_assert(runs_here());
    aside_begin(NULL);
    ck_assert(!runs_here());
    ck_assert_int_eq(pthread_create(&thread, NULL, is_elsewhere, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    aside_end();
    ck_assert(runs_here());
}
END_TEST

static _Atomic(pthread_t) told;

static void tell_thread(void)
{
    told = pthread_self();
}

static int spin(void *unused)
{
    for (volatile int i = 0; i < 20000000; i++)
        ;
    return unused != NULL;
}

START_TEST(the_other_thread_is_told_and_its_time_counted)
{
    pthread_t thread;
    aside_begin(tell_thread);
    ck_assert_uint_eq(aside_cpu_ns(), 0);
    aside_run(note_thread, &thread);
    ck_assert(pthread_equal(told, thread));
    uint64_t before = aside_cpu_ns();
    aside_run(spin, NULL);
    ck_assert_uint_gt(aside_cpu_ns() - before, 1000000);
}
END_TEST

static int say(void *text)
{
    log_error("%s", (const char *)text);
    return 0;
}

/* What stands on stderr is not there: a message goes back for it. */
START_TEST(messages_come_through)
{
    char line[100] = "", said[] = "said aside";
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    aside_begin(NULL);
    aside_run(say, said);
    ck_assert_int_gt(read(ends[0], line, sizeof line - 1), 0);
    ck_assert_str_eq(line, "cprof: said aside\n");
}
END_TEST

START_TEST(a_forked_child_has_nobody_to_ask)
{
    int status;
    aside_begin(NULL);
    ck_assert(!runs_here());
    pid_t child = fork();
    if (child == 0) {
        aside_abandon();
        _exit(runs_here() ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(!runs_here());
}
END_TEST

/* As kernels before 5.9, and filters, answer. */
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

START_TEST(refused_it_is_done_where_it_is_asked_for)
{
    struct there_and_back t = {.asked = pthread_self()};
    refuse_close_range(_i ? EPERM : ENOSYS);
    aside_begin(NULL);
    ck_assert(runs_here());
    ck_assert_int_eq(aside_run(go_there, &t), 113);
    ck_assert(pthread_equal(t.inner, t.asked));
    aside_end();
}
END_TEST

START_TEST(files_are_read_aside)
{
    char text[8], long_text[4096];
    errno = 12345;
    aside_begin(NULL);
    ck_assert_uint_eq(read_file("/nowhere/at/all", text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(read_file("/proc/self/status", text, sizeof text), 7);
    ck_assert_int_eq(strncmp(text, "Name:\t", 6), 0);
    ck_assert_uint_gt(read_file("/proc/self/status", long_text, sizeof long_text), 100);
    ck_assert_int_eq(errno, 12345);
}
END_TEST

Suite *suite_aside(void)
{
    Suite *suite = suite_create("aside");
    TCase *tcase = tcase_create("aside");
    /* Without it nothing of this can be: kernels before 5.9, filters. */
    if (!refused()) {
        tcase_add_test(tcase, descriptors_are_not_the_programs);
        tcase_add_test(tcase, a_pipe_that_the_program_closes_is_closed);
        tcase_add_test(tcase, locks_of_the_program_stay);
        tcase_add_test(tcase, work_goes_there_and_back);
        tcase_add_test(tcase, only_the_thread_that_began_is_served);
        tcase_add_test(tcase, the_other_thread_is_told_and_its_time_counted);
        tcase_add_test(tcase, a_forked_child_has_nobody_to_ask);
    } else {
        fprintf(stderr, "aside: 7 tests skipped: close_range(2) is refused here\n");
    }
    tcase_add_test(tcase, messages_come_through);
    tcase_add_loop_test(tcase, refused_it_is_done_where_it_is_asked_for, 0, 2);
    tcase_add_test(tcase, files_are_read_aside);
    suite_add_tcase(suite, tcase);
    return suite;
}
