/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/delivery/spawn.h: what a started program receives and returns, and that the
 * host notices nothing. */
#include "preload/delivery/spawn.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/sanitizer.h"
#include "writer/writer.h"

Suite *suite_spawn(void);

static const char *environment[] = {"ONLY=this", "PATH=/usr/bin:/bin", NULL};

static struct spawn *start(const char *script, const char *input, bool relay)
{
    static const char *argv[4];
    static struct spawn_request request;
    int error = 0;
    memcpy(argv, ((const char *[]){"/bin/sh", "-c", script, NULL}), sizeof argv);
    request = (struct spawn_request){.argv = argv,
                                     .envp = environment,
                                     .input = input,
                                     .input_len = input ? strlen(input) : 0,
                                     .relay = relay};
    struct spawn *s = spawn_start(&request, &error);
    ck_assert_msg(s != NULL, "%s", strerror(error));
    return s;
}

static struct spawn_result wait_for(struct spawn *s)
{
    struct spawn_result result;
    for (int i = 0; i < 5000 && !spawn_poll(s, &result); i++) {
        ck_assert_int_lt(i, 4999);
        usleep(2000);
    }
    return result;
}

static struct spawn_result run(const char *script, const char *input)
{
    return wait_for(start(script, input, false));
}

START_TEST(returns_status_and_output)
{
    struct spawn_result r = run("echo out; echo err >&2; exit 3", NULL);
    ck_assert_int_eq(r.exec_error, 0);
    ck_assert(WIFEXITED(r.status));
    ck_assert_int_eq(WEXITSTATUS(r.status), 3);
    ck_assert_str_eq(r.text, "out\nerr\n");
    r = run("kill -9 $$", NULL);
    ck_assert(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
}
END_TEST

START_TEST(keeps_the_end_of_long_output)
{
    struct spawn_result r = run("i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; done", NULL);
    ck_assert_int_eq(r.status, 0);
    ck_assert_uint_gt(strlen(r.text), 400);
    ck_assert_str_eq(r.text + strlen(r.text) - 15, "2998\n2999\n3000\n");
}
END_TEST

/* Runs a script at low priority and keeps the first bytes of its output. */
static struct spawn_result run_modest(const char *script, char *kept, size_t size)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct spawn_request request = {
        .argv = argv, .envp = environment, .output = kept, .output_size = size, .modest = true};
    int error = 0;
    struct spawn *s = spawn_start(&request, &error);
    ck_assert_msg(s != NULL, "%s", strerror(error));
    return wait_for(s);
}

START_TEST(keeps_the_first_bytes_in_a_buffer)
{
    char kept[40];
    memset(kept, 'x', sizeof kept);
    struct spawn_result r = run_modest("echo out; echo err >&2", kept, 30);
    ck_assert_uint_eq(r.output_len, 8);
    ck_assert(memcmp(kept, "out\nerr\nx", 9) == 0);
    ck_assert_str_eq(r.text, "");
    r = run_modest("i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; done", kept, 30);
    ck_assert_int_eq(r.status, 0); /* output beyond the buffer is read and dropped */
    ck_assert_uint_eq(r.output_len, 30);
    ck_assert(memcmp(kept, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n", 27) == 0);
    ck_assert_int_eq(kept[30], 'x');
}
END_TEST

START_TEST(limits_a_modest_program)
{
    char kept[64];
    struct spawn_result r = run_modest("nice; ulimit -t; ulimit -d; ulimit -c", kept, sizeof kept);
    char expected[64];
    int len = snprintf(expected, sizeof expected, "10\n%d\n%d\n0\n", SPAWN_MODEST_S,
                       (int)(SPAWN_MODEST_BYTES >> 10));
    if (nice(0) == 0) /* otherwise "nice" prints another number */
        ck_assert_uint_eq(r.output_len, (size_t)len);
    ck_assert(memcmp(strchr(kept, '\n'), strchr(expected, '\n'), (size_t)len - 2) == 0);
}
END_TEST

START_TEST(passes_the_whole_input)
{
    static char input[SPAWN_INPUT_MOST + 1];
    memset(input, 'x', SPAWN_INPUT_MOST);
    ck_assert_str_eq(run("wc -c | tr -d ' '", input).text, "131072\n");
    ck_assert_str_eq(run("wc -c | tr -d ' '", NULL).text, "0\n");
    int error = 0;
    struct spawn_request request = {.argv = (const char *[]){"/bin/true", NULL},
                                    .envp = environment,
                                    .input = input,
                                    .input_len = SPAWN_INPUT_MOST + 1};
    ck_assert(spawn_start(&request, &error) == NULL);
    ck_assert_int_eq(error, E2BIG);
}
END_TEST

START_TEST(relays_lines_with_the_prefix)
{
    char text[4096] = "", path[] = "/tmp/cprof-spawn-XXXXXX";
    int fd = mkostemp(path, O_APPEND), saved = dup(2);
    ck_assert(fd >= 0 && saved >= 0 && dup2(fd, 2) >= 0);
    wait_for(start("printf 'one\\ntwo\\033\\nthree'; sleep 0.1; echo ' more' >&2; echo end", NULL,
                   true));
    dup2(saved, 2);
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    unlink(path);
    ck_assert_str_eq(text, "cprof: one\ncprof: two \ncprof: three more\ncprof: end\n");
}
END_TEST

/* The host has closed standard error and reuses its number: for a file, or for a log that it opens
 * for appending (_i is 1). */
START_TEST(relays_only_into_files_opened_for_appending)
{
    bool appended = _i;
    char text[64] = "", path[] = "/tmp/cprof-spawn-XXXXXX";
    int fd = mkostemp(path, appended ? O_APPEND : 0), saved = dup(2);
    log_start();
    ck_assert(fd >= 0 && saved >= 0 && dup2(fd, 2) >= 0);
    struct spawn_result r = wait_for(start("readlink /proc/$PPID/fd/2", NULL, true));
    dup2(saved, 2);
    ck_assert_int_eq(pread(fd, text, sizeof text - 1, 0), appended ? (int)strlen(path) + 8 : 0);
    unlink(path);
    ck_assert_int_eq(r.status, 0);
    /* the helper must not have the file open */
    ck_assert_str_eq(r.text, appended ? "" : "/dev/null\n");
    ck_assert(!appended || strstr(text, path));
}
END_TEST

/* Makes a full pipe the standard error. ends: its two ends. */
static void fill_stderr(int ends[2])
{
    char text[4096];
    memset(text, 'x', sizeof text);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], text, sizeof text) > 0)
        ;
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0);
    ck_assert_int_ge(dup2(ends[1], 2), 0);
}

START_TEST(drops_lines_for_a_full_pipe)
{
    int ends[2], saved = dup(2);
    char text[4096], last[32] = "";
    fill_stderr(ends);
    struct spawn *s =
        start("i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo $i; done; exit 3", NULL, true);
    int status = wait_for(s).status;
    s = start("echo again; sleep 30", NULL, true);
    usleep(200000);
    spawn_kill(s);
    int killed = wait_for(s).status;
    while (read(ends[0], text, sizeof text) > 0) /* the pipe is read again */
        ;
    wait_for(start("echo again", NULL, true));
    dup2(saved, 2);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    ck_assert(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
    ck_assert_int_gt(read(ends[0], last, sizeof last - 1), 0);
    ck_assert_str_eq(last, "cprof: again\n");
}
END_TEST

START_TEST(reports_why_a_start_failed)
{
    int error = 0;
    struct spawn_request request = {.argv = (const char *[]){"/proc/nowhere/at/all", NULL},
                                    .envp = environment};
    struct spawn *s = spawn_start(&request, &error);
    ck_assert(s != NULL);
    ck_assert_int_eq(wait_for(s).exec_error, ENOENT);
}
END_TEST

static volatile sig_atomic_t children_died, forks;

static void died(int number)
{
    (void)number;
    children_died = 1;
}

static void forked(void)
{
    forks = 1;
}

START_TEST(hides_the_child_from_the_host)
{
    signal(SIGCHLD, died);
    pthread_atfork(forked, forked, forked);
    struct spawn *s = start("sleep 0.2", NULL, false);
    ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
    ck_assert_int_eq(errno, ECHILD);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_ALL, 0, &info, WEXITED | WNOHANG), -1);
    struct spawn_result r = wait_for(s);
    ck_assert(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
    ck_assert_int_eq(children_died, 0);
    ck_assert_int_eq(forks, 0);
}
END_TEST

START_TEST(starts_programs_in_a_clean_process)
{
    sigset_t all;
    for (int number = 1; number < 32; number++)
        if (number != SIGALRM)
            signal(number, SIG_DFL);
    sigfillset(&all);
    sigdelset(&all, SIGALRM); /* the test runner needs it */
    signal(SIGUSR1, died);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int kept = open("/dev/null", O_RDONLY);
    ck_assert_int_ge(dup2(kept, 77), 0);
    struct spawn_result r =
        run("cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt)' | cut -f2 | tr -d "
            "'0\\n'; echo; ls /proc/self/fd | wc -l; env | "
            "grep ONLY; ps -o sid= -p $$ >/dev/null; [ $(cut -d' ' -f6 "
            "/proc/$$/stat) = $$ ] && echo session",
            NULL);
    ck_assert_int_eq(r.exec_error, 0);
    ck_assert_str_eq(r.text, "\n4\nONLY=this\nsession\n");
}
END_TEST

START_TEST(kills_a_programs_children_with_it)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    struct spawn *s = start("trap '' TERM; sleep 30 & sleep 30; echo no", NULL, false);
    usleep(50000);
    spawn_kill(s);
    struct spawn_result r = wait_for(s);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGKILL);
    ck_assert_str_eq(r.text, "");
    ck_assert_int_lt(end.tv_sec - begin.tv_sec, 5);
}
END_TEST

START_TEST(finishes_despite_closed_output_and_orphans)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ck_assert_int_eq(WEXITSTATUS(run("exec >&- 2>&-; sleep 0.1; exit 4", NULL).status), 4);
    ck_assert_str_eq(run("sleep 5 & echo left", NULL).text, "left\n");
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert_int_lt(end.tv_sec - begin.tv_sec, 4);
}
END_TEST

START_TEST(finishes_a_program_that_the_host_reaped)
{
    struct spawn *s = start("exit 5", NULL, false);
    ck_assert_int_gt(waitpid(-1, NULL, __WALL), 0);
    ck_assert_int_eq(WEXITSTATUS(wait_for(s).status), 5);
}
END_TEST

Suite *suite_spawn(void)
{
    Suite *suite = suite_create("spawn");
    if (UNDER_TSAN || under_valgrind()) {
        fprintf(stderr, "spawn: skipped under ThreadSanitizer and valgrind, which do not support a "
                        "child that shares memory with its parent\n");
        return suite;
    }
    TCase *tcase = tcase_create("spawn");
    tcase_add_test(tcase, returns_status_and_output);
    tcase_add_test(tcase, keeps_the_end_of_long_output);
    tcase_add_test(tcase, keeps_the_first_bytes_in_a_buffer);
    tcase_add_test(tcase, limits_a_modest_program);
    tcase_add_test(tcase, passes_the_whole_input);
    tcase_add_test(tcase, relays_lines_with_the_prefix);
    tcase_add_loop_test(tcase, relays_only_into_files_opened_for_appending, 0, 2);
    tcase_add_test(tcase, drops_lines_for_a_full_pipe);
    tcase_add_test(tcase, reports_why_a_start_failed);
    tcase_add_test(tcase, hides_the_child_from_the_host);
    tcase_add_test(tcase, starts_programs_in_a_clean_process);
    tcase_add_test(tcase, kills_a_programs_children_with_it);
    tcase_add_test(tcase, finishes_despite_closed_output_and_orphans);
    tcase_add_test(tcase, finishes_a_program_that_the_host_reaped);
    suite_add_tcase(suite, tcase);
    return suite;
}
