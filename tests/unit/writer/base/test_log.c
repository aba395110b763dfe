/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the log messages of writer/writer.h: levels, one line a message, the limit on their
 * number. A message must not change the program's errno, stdout or signals. */
#define _GNU_SOURCE
#include "writer/writer.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"

static void log_each_level(void)
{
    log_error("error %d", 1);
    log_warn("warn %d", 2);
    log_info("info %d", 3);
    log_debug("debug %d", 4);
}

START_TEST(prints_only_messages_within_the_level)
{
    capture_start();
    log_each_level();
    ck_assert_str_eq(capture_stderr(), "cprof: error 1\ncprof: warn 2\ncprof: info 3\n");
    log_set_level(LOG_OFF);
    log_each_level();
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 3);
    log_set_level(LOG_WARN);
    log_each_level();
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 5);
    log_set_level(LOG_DEBUG);
    log_each_level();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "debug 4"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 9);
    ck_assert_str_eq(capture_stdout(), "");
}
END_TEST

START_TEST(prints_each_message_on_one_line)
{
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    capture_start();
    log_error("%s: two\nlines\tand\x1b[31m colour", "/tmp/a\nb");
    ck_assert_str_eq(capture_stderr(), "cprof: /tmp/a b: two lines and [31m colour\n");
    log_error("\x7f%s", "a\xc2\x9b"
                        "2J\xc3\x9b\xc2\xb5\xc2");
    ck_assert_ptr_nonnull(strstr(capture_stderr(), "cprof:  a  2J\xc3\x9b\xc2\xb5\xc2\n"));
    log_error("%s", text);
    log_error("%s", "");
    log_error("after");
    const char *all = capture_stderr();
    ck_assert_uint_eq(capture_lines(all, ""), capture_lines(all, "cprof: "));
    ck_assert_uint_eq(capture_lines(all, "after"), 1);
    ck_assert_uint_gt(strlen(all), 2000); /* truncated, not lost */
    ck_assert_uint_lt(strlen(all), 2300);
}
END_TEST

START_TEST(stops_after_a_hundred_messages)
{
    capture_start();
    for (unsigned i = 0; i < 1000; i++) {
        log_debug("not counted");
        log_info("line %u", i);
    }
    const char *all = capture_stderr();
    ck_assert_uint_eq(capture_lines(all, ""), 101);
    ck_assert_uint_eq(capture_lines(all, "cprof: line 99"), 1);
    ck_assert_uint_eq(capture_lines(all, "no more are written"), 1);
}
END_TEST

START_TEST(keeps_errno_and_allocates_nothing)
{
    capture_start();
    uint64_t before = alloc_count();
    errno = 4711;
    log_error("%s %d %.3f", "text", 5, 1.5);
    int kept = errno;
    uint64_t after = alloc_count();
    close(STDERR_FILENO);
    errno = 4712;
    log_error("nobody reads this");
    ck_assert_int_eq(errno, 4712);
    ck_assert_int_eq(kept, 4711);
    ck_assert_uint_eq(after, before);
}
END_TEST

/* ---- stderr without a reader, or a file at its size limit ---- */

/* The limit leaves room for libcheck's own output. */
static void break_stderr(int signal)
{
    int ends[2];
    if (signal == SIGXFSZ) {
        struct rlimit most = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
        ends[1] = open(".", O_TMPFILE | O_WRONLY | O_APPEND, 0600);
        ck_assert_int_eq(ftruncate(ends[1], 1 << 20), 0);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
    } else {
        ck_assert_int_eq(pipe(ends), 0);
        close(ends[0]);
    }
    ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
}

static volatile sig_atomic_t n_signals;

static void count_signal(int signal)
{
    (void)signal;
    n_signals++;
}

static const int write_signals[] = {SIGPIPE, SIGXFSZ};

START_TEST(failed_write_does_not_signal_the_program)
{
    int number = write_signals[_i];
    pid_t child = fork();
    if (child == 0) {
        break_stderr(number);
        log_error("nobody reads this");
        _exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 5);

    signal(number, count_signal);
    break_stderr(number);
    log_error("nor this");
    ck_assert_int_eq(n_signals, 0);
    /* the program's own SIGXFSZ or SIGPIPE is delivered */
    ck_assert_int_eq(write(STDERR_FILENO, "x", 1), -1);
    ck_assert_int_eq(n_signals, 1);
    sigset_t blocked, pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    log_error("nor this");
    sigpending(&pending);
    ck_assert(!sigismember(&pending, number));
    raise(number); /* a pending signal stays pending */
    log_error("nor this");
    sigpending(&pending);
    ck_assert(sigismember(&pending, number));
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    ck_assert_int_eq(n_signals, 2);
}
END_TEST

/* ---- many threads ---- */

static void *log_fifty_lines(void *name)
{
    for (unsigned i = 0; i < 50; i++)
        log_info("%s%s%s%s", (char *)name, (char *)name, (char *)name, (char *)name);
    return NULL;
}

START_TEST(keeps_lines_of_threads_apart)
{
    static char names[] = "a\0b\0c\0d";
    capture_start();
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, log_fifty_lines, names + 2 * i);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const char *all = capture_stderr();
    unsigned whole = 0;
    for (unsigned i = 0; i < 4; i++) {
        char line[] = "cprof: xxxx";
        memset(line + 7, names[2 * i], 4);
        whole += capture_lines(all, line);
    }
    ck_assert_uint_eq(whole, 100);
    ck_assert_uint_eq(capture_lines(all, ""), 101);
}
END_TEST

Suite *suite_log(void)
{
    Suite *suite = suite_create("log");
    TCase *all = tcase_create("all");
    tcase_add_test(all, prints_only_messages_within_the_level);
    tcase_add_test(all, prints_each_message_on_one_line);
    tcase_add_test(all, stops_after_a_hundred_messages);
    tcase_add_test(all, keeps_errno_and_allocates_nothing);
    tcase_add_loop_test(all, failed_write_does_not_signal_the_program, 0, 2);
    tcase_add_test(all, keeps_lines_of_threads_apart);
    suite_add_tcase(suite, all);
    return suite;
}
