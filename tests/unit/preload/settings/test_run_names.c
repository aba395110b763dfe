/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/run_names.h: script and run names, the start time of a launch,
 * format variables. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/settings/config.h"
#include "preload/settings/run_names.h"
#include "tests/support/sanitizer.h"

Suite *suite_run_names(void);

/* ---- script names ---- */

/* Returns the script of a command line. '|' separates its arguments. */
static const char *script(const char *arguments)
{
    static char out[NAMES_SCRIPT_SIZE];
    char cmdline[512];
    size_t length = strlen(arguments) + 1;
    memcpy(cmdline, arguments, length);
    for (size_t i = 0; i < length; i++)
        if (cmdline[i] == '|')
            cmdline[i] = '\0';
    memset(out, 'x', sizeof out);
    names_script_of(cmdline, length, out, sizeof out);
    return out;
}

START_TEST(names_python_scripts)
{
    static const char *const rows[][2] = {
        {"python|train.py", "train"},
        {"python3|/data/my dir/train.py|--lr|1", "train"},
        {"/usr/bin/python3.11|-u|train.py", "train"},
        {"python3.13t|train.py", "train"},
        {"pypy3|train.py", "train"},
        {"python|-m|pkg.sub.mod|x.py", "mod"},
        {"python|-mpkg", "pkg"},
        {"python|-um|pkg.mod", "mod"},
        {"python|-um|pkg.", "pkg."},
        {"python|-c|import train.py", "python"},
        {"python|-cimport x", "python"},
        {"python|-", "python"},
        {"python", "python"},
        {"python|-m", "python"},
        {"python|-W|ignore|train.py", "train"},
        {"python|-Wignore|train.py", "train"},
        {"python|-X|dev|-B|train.py", "train"},
        {"python|-BX|dev|train.py", "train"},
        {"python|--check-hash-based-pycs|always|train.py", "train"},
        {"python|--version|x.py", "x"},
        {"python|mydir/", "mydir"},
        {"python|.", "_"},
        {"python|/", "_"},
        {"python|app.pyz", "app"},
        {"python|train.pyc", "train"},
        {"python|train.v2.py", "train.v2"},
        {"python|train.v2", "train.v2"},
        {"python|.py", "_py"},
        {"python|/usr/bin/torchrun|train.py", "torchrun"},
        {"python|a b:c*\"d\n.py", "a_b_c__d_"},
        {"python|l\xc3\xa4uft.py", "l\xc3\xa4uft"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(strcmp(script(rows[i][0]), rows[i][1]) == 0, "%s gave %s", rows[i][0],
                      script(rows[i][0]));
}
END_TEST

START_TEST(names_programs_other_than_python)
{
    ck_assert_str_eq(script("./build/train_gpu|x.py"), "train_gpu");
    ck_assert_str_eq(script("-bash"), "bash");
    ck_assert_str_eq(script("pythonic|x.py"), "pythonic");
    ck_assert_str_eq(script("a.out"), "a.out");
    ck_assert_str_eq(script("ray::train"), "ray__train");
    ck_assert_str_eq(script(""), "_");
}
END_TEST

START_TEST(handles_broken_command_lines)
{
    char out[NAMES_SCRIPT_SIZE], small[4], cmdline[1000];
    names_script_of("", 0, out, sizeof out);
    ck_assert_str_eq(out, "program");
    names_script_of("python\0train.py", 15, out, sizeof out); /* without a NUL at the end */
    ck_assert_str_eq(out, "program");
    names_script_of("python\0train.py", 16, small, sizeof small);
    ck_assert_str_eq(small, "tra");
    memset(cmdline, 'y', sizeof cmdline);
    cmdline[sizeof cmdline - 1] = '\0';
    names_script_of(cmdline, sizeof cmdline, out, sizeof out);
    ck_assert_uint_eq(strlen(out), NAMES_SCRIPT_SIZE - 1);
}
END_TEST

START_TEST(recognizes_multiprocessing_children)
{
    static const char spawn[] = "python3\0-c\0from multiprocessing.spawn import spawn_main; "
                                "spawn_main(tracker_fd=5)\0--multiprocessing-fork";
    static const char forkserver[] =
        "python3\0-B\0-c\0from multiprocessing.forkserver import main; "
        "main(3)";
    static const char other[] = "python3\0-c\0import multiprocessing";
    static const char not_python[] = "perl\0-c\0from multiprocessing.spawn import x";
    static const char file[] = "python3\0from multiprocessing.py";
    ck_assert(names_is_multiprocessing(spawn, sizeof spawn));
    ck_assert(names_is_multiprocessing(forkserver, sizeof forkserver));
    ck_assert(!names_is_multiprocessing(other, sizeof other));
    ck_assert(!names_is_multiprocessing(not_python, sizeof not_python));
    ck_assert(!names_is_multiprocessing(file, sizeof file));
    ck_assert(!names_is_multiprocessing("", 0));
    ck_assert(!names_is_multiprocessing(spawn, 20)); /* cut inside the argument */
}
END_TEST

/* A process cannot change its command line, so this test program executes itself as train.py, which
 * starts `depth` nested children of multiprocessing. The last child prints its script and the start
 * of its launch, and ends before main(). */
static void start_again(int depth)
{
    char number[12];
    const char *code = depth == 1 ? "from multiprocessing.forkserver import main; main(3)"
                                  : "from multiprocessing.spawn import spawn_main";
    snprintf(number, sizeof number, "%d", depth);
    setenv("NAMES_TEST_DEPTH", number, 1);
    execl("/proc/self/exe", "python3", "-c", code, "--multiprocessing-fork", (char *)NULL);
    _exit(1);
}

__attribute__((constructor)) static void started_again(void)
{
    const char *depth = getenv("NAMES_TEST_DEPTH");
    if (!depth)
        return;
    config_capture();
    names_capture();
    if (strcmp(depth, "0") != 0) {
        pid_t pid = fork();
        if (pid == 0)
            start_again(atoi(depth) - 1);
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    char out[NAMES_SCRIPT_SIZE + 32], name[NAMES_SCRIPT_SIZE];
    names_script(name, sizeof name);
    int length = snprintf(out, sizeof out, "%s %lld", name, (long long)names_start_time());
    _exit(write(STDOUT_FILENO, out, (size_t)length) != length);
}

/* What the last of `depth` children prints; depth 0: train.py itself. */
static const char *report_at_depth(const char *depth)
{
    static char report[NAMES_SCRIPT_SIZE + 32];
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        setenv("NAMES_TEST_DEPTH", depth, 1);
        execl("/proc/self/exe", "python3", "dir/train.py", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], report, sizeof report - 1);
    report[length < 0 ? 0 : length] = '\0';
    close(ends[0]);
    waitpid(pid, NULL, 0);
    return report;
}

START_TEST(children_inherit_script_name_and_start)
{
    static const char *const depths[] = {"0", "1", "2", "3"};
    long long started = 0, now = time(NULL);
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        char name[NAMES_SCRIPT_SIZE] = "";
        /* train.py started by a program that is not part of the run */
        setenv("CPROF_START_TIME", "1000000000000", 1);
        ck_assert_int_eq(sscanf(report_at_depth(depths[i]), "%96s %lld", name, &started), 2);
        ck_assert_str_eq(name, "train");
        ck_assert_int_ge(started, now);
    }
    /* Children inherit the start of the launch, even if they start later. */
    setenv("NAMES_TEST_DEPTH", "0", 1);
    setenv("CPROF_START_TIME", "1000000000000", 1);
    int ends[2];
    char report[64] = "";
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        start_again(0);
    }
    close(ends[1]);
    ck_assert_int_gt(read(ends[0], report, sizeof report - 1), 0);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    ck_assert_str_eq(strchr(report, ' '), " 1000");
}
END_TEST

START_TEST(names_this_process)
{
    char out[NAMES_SCRIPT_SIZE];
    errno = 77;
    names_script(out, sizeof out);
    ck_assert_str_eq(out, program_invocation_short_name);
    ck_assert_int_eq(errno, 77);
}
END_TEST

/* ---- run names ---- */

static const char *const *environment;

static const char *lookup(const char *name)
{
    size_t length = strlen(name);
    for (const char *const *entry = environment; *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

enum { START = 1795187523 }; /* 2026-11-20 15:12:03 UTC */

static const char *run_of(const char *setting, const char *const *entries)
{
    static char out[NAMES_RUN_SIZE];
    struct rank_info rank;
    environment = entries;
    rank_read(&rank, lookup, false);
    setenv("TZ", "UTC", 1);
    tzset();
    names_run(out, sizeof out, setting, lookup, &rank, "train", START);
    return out;
}

#define RUN(...) run_of("", (const char *const[]){__VA_ARGS__, NULL})

START_TEST(takes_the_run_name_from_the_setting)
{
    ck_assert_str_eq(run_of("mine", (const char *const[]){"RUN_NAME=x", NULL}), "mine");
    ck_assert_str_eq(run_of("a/b/../c", (const char *const[]){NULL}), "a_b_.._c");
    ck_assert_str_eq(run_of("..", (const char *const[]){NULL}), "__");
    ck_assert_str_eq(run_of(".", (const char *const[]){NULL}), "_");
    ck_assert_str_eq(run_of(" two words\n", (const char *const[]){NULL}), "two words");
    ck_assert_str_eq(run_of("a\tb", (const char *const[]){NULL}), "a_b");
    ck_assert_str_eq(run_of(" ", (const char *const[]){"RUN_NAME=x", NULL}), "x");
}
END_TEST

START_TEST(cuts_long_run_names_between_characters)
{
    char setting[600];
    for (size_t i = 0; i + 2 < sizeof setting; i += 2)
        memcpy(setting + i, "\xc3\xa4", 3);
    ck_assert_uint_eq(strlen(run_of(setting, (const char *const[]){NULL})), NAMES_RUN_SIZE - 1);
    setting[0] = 'x';
    setting[1] = 'y';
    setting[2] = 'z';
    memmove(setting + 3, setting + 4, sizeof setting - 4);
    const char *name = run_of(setting, (const char *const[]){NULL});
    ck_assert_uint_eq(strlen(name), NAMES_RUN_SIZE - 2);
    ck_assert_int_eq((unsigned char)name[NAMES_RUN_SIZE - 3], 0xa4);
}
END_TEST

START_TEST(takes_the_run_name_from_the_launcher)
{
    ck_assert_str_eq(RUN("RUN_NAME=b", "COMPOSER_RUN_NAME=a", "TORCHELASTIC_RUN_ID=c"), "a");
    ck_assert_str_eq(RUN("RUN_NAME=b", "TORCHELASTIC_RUN_ID=c"), "b");
    ck_assert_str_eq(RUN("TORCHELASTIC_RUN_ID=c", "SLURM_JOB_ID=9"), "c");
    ck_assert_str_eq(RUN("TORCHELASTIC_RUN_ID=none"), "train-20261120-151203");
    ck_assert_str_eq(RUN("TORCHELASTIC_RUN_ID="), "train-20261120-151203");
    ck_assert_str_eq(RUN("PMIX_NAMESPACE=prterun-host-7@1", "OMPI_COMM_WORLD_RANK=0",
                         "OMPI_COMM_WORLD_SIZE=2", "SLURM_JOB_ID=9"),
                     "prterun-host-7@1");
    ck_assert_str_eq(
        RUN("OMPI_MCA_ess_base_jobid=345", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"),
        "345");
    ck_assert_str_eq(RUN("PMI_JOBID=9.1", "PMI_RANK=1", "PMI_SIZE=2"), "9.1");
    /* The same launch, seen from mpirun's own node and from a node that it reached through srun. */
    ck_assert_str_eq(RUN("PMIX_NAMESPACE=n", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                         "SLURM_JOB_ID=9", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2"),
                     "n");
}
END_TEST

START_TEST(takes_the_run_name_from_slurm)
{
    ck_assert_str_eq(
        RUN("SLURM_JOB_ID=9", "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1"),
        "9.3");
    ck_assert_str_eq(RUN("SLURM_JOB_ID=9", "SLURM_STEP_ID=3", "SLURM_NTASKS=2", "SLURM_PROCID=1"),
                     "9.3");
    /* torchrun under srun, one agent per node. */
    ck_assert_str_eq(RUN("RANK=3", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID=9",
                         "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=2"),
                     "9.3");
    /* Preempted and started again. */
    ck_assert_str_eq(RUN("SLURM_JOB_ID=9", "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=2",
                         "SLURM_PROCID=1", "SLURM_RESTART_COUNT=2"),
                     "9.3-restart2");
    ck_assert_str_eq(RUN("TORCHELASTIC_RUN_ID=9", "SLURM_JOB_ID=9", "SLURM_RESTART_COUNT=1"),
                     "9-restart1");
    ck_assert_str_eq(RUN("TORCHELASTIC_RUN_ID=9", "SLURM_JOB_ID=9", "SLURM_RESTART_COUNT=0"), "9");
    /* One job, many runs: the batch script, and a shell of srun --pty. */
    ck_assert_str_eq(RUN("SLURM_JOB_ID=9", "SLURM_PROCID=0", "SLURM_NTASKS=16"),
                     "9-20261120-151203");
    ck_assert_str_eq(RUN("SLURM_JOB_ID=9", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
                         "SLURM_STEP_NUM_TASKS=1", "SLURM_NTASKS=16", "PMIX_NAMESPACE=x"),
                     "9-20261120-151203");
}
END_TEST

START_TEST(builds_the_run_name_from_script_and_time)
{
    char small[8];
    static const char *const nothing[] = {NULL};
    struct rank_info rank = {.world_size = 1};
    ck_assert_str_eq(RUN("PATH=x"), "train-20261120-151203");
    environment = nothing;
    names_run(small, sizeof small, NULL, lookup, &rank, "train", START);
    ck_assert_str_eq(small, "train-2");
    names_run(small, 0, NULL, lookup, &rank, "train", START);
}
END_TEST

/* ---- start of the launch ---- */

/* Runs names_capture() in a child named `program`, with the variables `extra`. Returns the child's
 * start time. exported: whether the child's environment holds that time; or NULL. */
static int64_t capture_as(const char *program, const char *extra, bool *exported)
{
    int ends[2];
    int64_t report[2] = {-1, 0};
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char name[32];
        snprintf(name, sizeof name, "%s", program);
        program_invocation_short_name = name;
        for (char *save = NULL, *copy = strdup(extra), *entry = strtok_r(copy, " ", &save); entry;
             entry = strtok_r(NULL, " ", &save))
            putenv(entry);
        config_capture();
        names_capture();
        const char *value = getenv("CPROF_START_TIME");
        report[0] = names_start_time();
        char whole[48];
        snprintf(whole, sizeof whole, "%019lld", (long long)names_start_ns());
        report[1] = value && strcmp(value, whole) == 0;
        _exit(write(ends[1], report, sizeof report) != sizeof report);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], report, sizeof report), sizeof report);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    if (exported)
        *exported = report[1];
    return report[0];
}

START_TEST(ranks_share_the_start_of_their_launch)
{
    int64_t now = time(NULL);
    setenv("CPROF_START_TIME", "1000000000000", 1);
    ck_assert_int_eq(capture_as("python", "RANK=1 WORLD_SIZE=2", NULL), 1000);
    ck_assert_int_eq(capture_as("python", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4", NULL),
                     1000);
    ck_assert_int_eq(capture_as("a.out", "PMI_RANK=0 PMI_SIZE=4", NULL), 1000);
    ck_assert_int_eq(capture_as("bash", "RANK=1 WORLD_SIZE=2", NULL), 1000);
    /* Without other ranks, a process begins a run of its own and ignores the inherited start. */
    ck_assert_int_ge(capture_as("python", "X=1", NULL), now);
    ck_assert_int_ge(capture_as("python", "RANK=0 WORLD_SIZE=1", NULL), now);
    ck_assert_int_ge(capture_as("python", "SLURM_PROCID=0 SLURM_NTASKS=16", NULL), now);
}
END_TEST

START_TEST(reads_the_start_to_the_nanosecond)
{
    setenv("CPROF_START_TIME", "1000000000321", 1);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("RANK", "1", 1);
        setenv("WORLD_SIZE", "2", 1);
        config_capture();
        names_capture();
        _exit(names_start_ns() != INT64_C(1000000000321) || names_start_time() != 1000);
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(launchers_export_their_start)
{
    bool exported = false;
    int64_t now = time(NULL);
    unsetenv("CPROF_START_TIME");
    ck_assert_int_ge(capture_as("mpirun", "X=1", &exported), now);
    ck_assert(exported);
    /* An inherited start time is replaced: two launches from one script are two runs. */
    setenv("CPROF_START_TIME", "1000000000000", 1);
    ck_assert_int_ge(capture_as("torchrun", "X=1", &exported), now);
    ck_assert(exported);
}
END_TEST

START_TEST(shells_export_no_start)
{
    static const char *const shells[] = {"sh", "bash", "-bash", "dash", "zsh", "tmux", "sshd"};
    bool exported = true;
    unsetenv("CPROF_START_TIME");
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        capture_as(shells[i], "X=1", &exported);
        ck_assert_msg(!exported, "%s", shells[i]);
    }
    capture_as("shred", "X=1", &exported);
    ck_assert(exported);
    capture_as("a-program-with-a-name-of-more-than-32-bytes", "X=1", &exported);
    ck_assert(exported);
}
END_TEST

START_TEST(replaces_an_invalid_start)
{
    static const char *const bad[] = {"", "0", "-5", "x", "9223372036854775807", "1e3", "1000.5"};
    int64_t now = time(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("CPROF_START_TIME", bad[i], 1);
        int64_t start = capture_as("python", "RANK=1 WORLD_SIZE=2", NULL);
        ck_assert_msg(start >= now && start < now + 100, "%s gave %lld", bad[i], (long long)start);
    }
}
END_TEST

START_TEST(exports_no_start_while_disabled)
{
    bool exported = true;
    unsetenv("CPROF_START_TIME");
    ck_assert_int_gt(capture_as("python", "CPROF_ENABLED=0", &exported), 0);
    ck_assert(!exported);
}
END_TEST

/* ---- format variables ---- */

START_TEST(expands_all_sixteen_variables)
{
    struct names_values values;
    struct rank_info rank = {.rank = 5,
                             .local_rank = 1,
                             .local_known = true,
                             .world_size = 8,
                             .local_world_size = 4,
                             .node_rank = 2};
    struct train_time t = {.epoch = 10,
                           .batch = 11,
                           .batch_in_epoch = 12,
                           .sample = 13,
                           .sample_in_epoch = 14,
                           .token = 15,
                           .token_in_epoch = 16,
                           .total_wct_ns = INT64_C(17999999999),
                           .epoch_wct_ns = INT64_C(18000000000),
                           .batch_wct_ns = INT64_MAX};
    char out[512];
    names_fill(&values, "run", &rank, &t);
    ck_assert_int_eq(
        path_expand("{run_name} {rank} {local_rank} {world_size} {local_world_size} {node_rank} "
                    "{epoch} {batch} {batch_in_epoch} {sample} {sample_in_epoch} {token} "
                    "{token_in_epoch} {total_wct} {epoch_wct} {batch_wct}",
                    values.vars, NAMES_VARIABLES, out, sizeof out, NULL),
        PATH_OK);
    ck_assert_str_eq(out, "run 5 1 8 4 2 10 11 12 13 14 15 16 17.999999 18.0 9223372036.854775");
    for (int i = 0; i < NAMES_VARIABLES; i++)
        ck_assert_str_eq(values.vars[i].name, names_variables[i]);
    ck_assert_str_eq(names_variables[NAMES_RUN_VARIABLES - 1], "node_rank");
    ck_assert_str_eq(names_variables[2], "local_rank");
    rank.local_known = false;
    names_fill(&values, "run", &rank, NULL);
    ck_assert_str_eq(values.vars[2].value, "null");
    for (int i = NAMES_RUN_VARIABLES; i < NAMES_VARIABLES; i++)
        ck_assert_str_eq(values.vars[i].value, i < NAMES_VARIABLES - 3 ? "0" : "0.0");
}
END_TEST

/* Python's str() of each of these numbers of microseconds, divided by a million. */
START_TEST(formats_seconds_as_python_does)
{
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {{0, "0.0"},           {1, "1e-06"},
                {10, "1e-05"},        {26, "2.6e-05"},
                {99, "9.9e-05"},      {100, "0.0001"},
                {110, "0.00011"},     {500000, "0.5"},
                {1000000, "1.0"},     {1000001, "1.000001"},
                {10000000, "10.0"},   {12345678, "12.345678"},
                {100200000, "100.2"}, {INT64_C(86400000000), "86400.0"}};
    struct names_values values;
    struct rank_info rank = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct train_time t = {.batch_wct_ns = rows[i].us * 1000 + 999};
        names_fill(&values, "run", &rank, &t);
        ck_assert_str_eq(values.vars[NAMES_VARIABLES - 1].value, rows[i].text);
    }
}
END_TEST

Suite *suite_run_names(void)
{
    Suite *suite = suite_create("run_names");
    TCase *tcase = tcase_create("names");
    tcase_add_test(tcase, names_python_scripts);
    tcase_add_test(tcase, names_programs_other_than_python);
    tcase_add_test(tcase, handles_broken_command_lines);
    tcase_add_test(tcase, recognizes_multiprocessing_children);
    if (under_valgrind())
        fprintf(stderr, "run_names: children_inherit_script_name_and_start is skipped under "
                        "valgrind, where /proc/self/exe is valgrind\n");
    else
        tcase_add_test(tcase, children_inherit_script_name_and_start);
    tcase_add_test(tcase, names_this_process);
    tcase_add_test(tcase, takes_the_run_name_from_the_setting);
    tcase_add_test(tcase, cuts_long_run_names_between_characters);
    tcase_add_test(tcase, takes_the_run_name_from_the_launcher);
    tcase_add_test(tcase, takes_the_run_name_from_slurm);
    tcase_add_test(tcase, builds_the_run_name_from_script_and_time);
    tcase_add_test(tcase, ranks_share_the_start_of_their_launch);
    tcase_add_test(tcase, reads_the_start_to_the_nanosecond);
    tcase_add_test(tcase, launchers_export_their_start);
    tcase_add_test(tcase, shells_export_no_start);
    tcase_add_test(tcase, replaces_an_invalid_start);
    tcase_add_test(tcase, exports_no_start_while_disabled);
    tcase_add_test(tcase, expands_all_sixteen_variables);
    tcase_add_test(tcase, formats_seconds_as_python_does);
    suite_add_tcase(suite, tcase);
    return suite;
}
