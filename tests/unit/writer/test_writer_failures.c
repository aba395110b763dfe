/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/writer.h under failures: full queues, missing folders, no memory, taken names,
 * forks, kills. Also of the cprof thread's attributes. */
#include "writer/writer.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/sandbox.h"
#include "tests/support/sanitizer.h"
#include "tests/support/session.h"

/* ---- failures -------------------------------------------------------------------------------- */

/* Makes the cprof thread wait inside a call of the test. */
static _Atomic bool held_back;
static _Atomic unsigned times_held;

static void hold_identity(struct trace_identity *out)
{
    *out = (struct trace_identity){.world_size = 1};
    atomic_fetch_add(&times_held, 1);
    while (atomic_load(&held_back))
        usleep(1000);
}

static void wait_until_held(void)
{
    while (atomic_load(&times_held) == 0)
        usleep(1000);
}

#define MANY_STEPS 100000u

START_TEST(a_full_queue_of_edges_turns_recording_off_until_it_is_empty)
{
    session_options.identity = hold_identity;
    atomic_store(&held_back, true);
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    wait_until_held();
    unsigned steps = 0;
    while (gate_open(GATE_SPANS) && steps < MANY_STEPS) {
        session_step(ACTION_ACTIVE);
        steps++;
    }
    ck_assert_uint_gt(steps, 1000);
    ck_assert_uint_lt(steps, MANY_STEPS);
    for (unsigned i = 0; i < 50; i++)
        session_step(ACTION_ACTIVE);
    ck_assert(!gate_open(GATE_SPANS | GATE_MARKERS));
    ck_assert(!writer_is_off());
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off until they are"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
    atomic_store(&held_back, false);
    for (unsigned i = 0; i < 500 && !gate_open(GATE_SPANS); i++, steps++) {
        session_sleep(10);
        session_step(ACTION_ACTIVE);
    }
    ck_assert(gate_open(GATE_SPANS));
    session_span("behind it");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_end();
    ck_assert_uint_eq(session_files(".part"), 0); /* the records so far are a trace */
    ck_assert_uint_eq(session_files(""), 2);
    char pattern[160];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.json", session_folder);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    unsigned before = 0, behind = 0, lost = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct trace t = trace_read(found.gl_pathv[i]);
        before += trace_named(&t, 'X', "span") && strstr(t.text, "\"partial\": true");
        behind += trace_named(&t, 'X', "behind it");
        lost += (unsigned)trace_number(strstr(t.text, "\"steps_behind\""), "steps_behind");
        trace_free(&t);
    }
    globfree(&found);
    ck_assert_uint_eq(before, 1);
    ck_assert_uint_eq(behind, 1);
    ck_assert_uint_ge(lost, 51);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " events, at least "), 1);
}
END_TEST

/* The first step that finds room again begins a window. The window has only its own losses and
 * is written at once, however long the step is. */
START_TEST(the_first_step_behind_a_full_queue)
{
    session_options.identity = hold_identity;
    atomic_store(&held_back, true);
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    span_data_room(thread_log_get(), NULL, UINT16_MAX); /* counts as text_cut */
    wait_until_held();
    unsigned steps = 0;
    for (; gate_open(GATE_SPANS) && steps < MANY_STEPS; steps++)
        session_step(ACTION_ACTIVE);
    atomic_store(&held_back, false);
    session_await(".json", 1);
    session_await(".part", 0);
    session_sleep(100); /* the cprof thread sleeps, too, because nothing is recorded */
    session_step(ACTION_ACTIVE);
    session_span("behind it");
    session_await(".part", 1);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(steps + 2);
    ck_assert(trace_named(&t, 'X', "behind it"));
    trace_check_lost(&t, "text_cut", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_folder_that_is_a_file)
{
    char file[160];
    snprintf(file, sizeof file, "%s/file", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    strcat(session_folder, "/file/traces");
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    for (unsigned i = 0; i < 200 && gate_open(GATE_SPANS); i++)
        session_sleep(20);
    ck_assert(!gate_open(GATE_SPANS));
    for (unsigned i = 0; i < 20; i++) { /* the program goes on */
        session_step(ACTION_ACTIVE);
        ck_assert(!gate_open(GATE_SPANS));
        session_span("span");
    }
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off, the program goes on"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

/* CUPTI makes each launch slower, and its records are no longer used. */
START_TEST(the_gpu_is_not_recorded_when_writing_has_failed)
{
    char file[160];
    session_options.gpu = &fake_gpu_source;
    snprintf(file, sizeof file, "%s/file", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    strcat(session_folder, "/file/traces");
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    for (int i = 0; i < 500 && !writer_is_off(); i++)
        session_sleep(10);
    ck_assert(writer_is_off());
    session_step(ACTION_ACTIVE);
    session_sleep(100);
    unsigned wanted = atomic_load(&fake_gpu.wants[GPU_WANT_ALL]);
    session_step(ACTION_ACTIVE);
    session_sleep(200);
    ck_assert_uint_eq(atomic_load(&fake_gpu.wants[GPU_WANT_ALL]), wanted);
    ck_assert_uint_gt(atomic_load(&fake_gpu.wants[GPU_WANT_NOTHING]), 0);
    session_end();
}
END_TEST

START_TEST(no_memory_for_a_window)
{
    if (!alloc_is_ours)
        return;
    session_start(ACTION_SKIP, false);
    session_sleep(100);
    alloc_fail_from(4096);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("lost");
    session_sleep(100);
    session_step(ACTION_SKIP);
    session_sleep(100);
    alloc_fail_from(0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(4);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "lost"), 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " events, at least 1 lost"), 1);
}
END_TEST

START_TEST(no_thread_to_be_had)
{
    if (!sandbox_deny_threads())
        return;
    ck_assert(writer_start(&session_options));
    writer_set_gate(SESSION_GATE);
    ck_assert(!writer_run());
    ck_assert(!gate_open(~0u));
    for (unsigned i = 0; i < 10; i++) { /* the program goes on with steps */
        session_step(ACTION_ACTIVE);
        ck_assert(!gate_open(~0u));
    }
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "cannot start a thread"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
    ck_assert_uint_eq(session_files(""), 0);
}
END_TEST

START_TEST(no_key_to_be_had)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    ck_assert(!writer_start(&session_options));
    ck_assert_ptr_null(thread_log_get());
    ck_assert_uint_eq(capture_lines(capture_stderr(), "nothing is recorded"), 1);
}
END_TEST

START_TEST(the_deadline_at_exit_holds)
{
    session_options.identity = hold_identity;
    session_options.exit_deadline_ms = 300;
    atomic_store(&held_back, true);
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    wait_until_held();
    uint64_t before = clock_monotonic_ns();
    session_end();
    double ms = (double)(clock_monotonic_ns() - before) / 1e6;
    ck_assert(ms > 250 && ms < 2000);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "CPROF_DRAIN_DEADLINE_MS=300"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
    atomic_store(&held_back, false);
}
END_TEST

static bool pattern(char *text, unsigned long size)
{
    snprintf(text, size, "%s/t*.json", session_folder);
    return true;
}

START_TEST(traces_of_an_earlier_run_are_in_the_way)
{
    char file[160];
    snprintf(file, sizeof file, "%s/t7.json", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    session_options.trace_pattern = pattern;
    session_options.renamed_by = "CPROF_FOLDER";
    session_options.overwrite = _i == 1;
    session_options.run_started_ns = clock_wall_now() + INT64_C(3600000000000);
    if (_i == 2)
        session_options.run_started_ns = 1; /* the file is of this run */
    bool stops = _i == 0 || _i == 4;
    if (_i >= 3) { /* the file is older; 3: the run has no name */
        struct timespec now;
        do
            clock_gettime(CLOCK_REALTIME, &now);
        while (now.tv_nsec < 100000000);
        utimensat(AT_FDCWD, file, (struct timespec[2]){now, now}, 0);
        session_options.run_started_ns = clock_wall_now() + 1000000;
        session_options.shares_second = _i == 3;
    }
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    ck_assert_uint_eq(session_files(""), stops ? 1 : 2);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "in the way"), stops);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "or another CPROF_FOLDER"), stops);
    ck_assert(stops || capture_lines(capture_stderr(), "1 trace") == 1);
}
END_TEST

START_TEST(a_name_that_is_taken)
{
    char file[160];
    struct stat st;
    snprintf(file, sizeof file, "%s/t0.json", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_int_eq(st.st_size, 0); /* another's file, untouched */
    snprintf(file, sizeof file, "%s/t0-2.json", session_folder);
    struct trace t = trace_read(file);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "/t0-2.json\"\n}")); /* the trace holds its own name */
    trace_free(&t);
}
END_TEST

/* ---- processes and threads ------------------------------------------------------------------- */

START_TEST(a_forked_child_is_inert)
{
    session_start(ACTION_ACTIVE, false);
    session_span("parent");
    session_open("open");
    pid_t child = fork();
    if (child == 0) {
        writer_abandon();
        uint64_t before = clock_monotonic_ns();
        bool quiet = !gate_open(~0u) && !thread_log_get();
        writer_set_gate(SESSION_GATE);
        quiet = quiet && !gate_open(~0u);
        for (unsigned i = 0; i < 3000; i++)
            session_step(ACTION_ACTIVE);
        session_span("child");
        session_end();
        _exit(quiet && clock_monotonic_ns() - before < 1000000000 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    session_close("open");
    session_span("parent");
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "parent"), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "open"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "child"), 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

/* Waits until the file has this size and the flush is over: nothing has changed for a while, and
 * the next flush is far. */
static void wait_for_flush(const char *path, off_t bytes)
{
    struct stat st = {0}, last = {0};
    for (unsigned same = 0; same < 30; same++) {
        session_sleep(1);
        bool there = stat(path, &st) == 0;
        if (!there || st.st_size < bytes ||
            memcmp(&st.st_mtim, &last.st_mtim, sizeof st.st_mtim) != 0)
            same = 0;
        last = st;
    }
}

START_TEST(a_killed_process_leaves_a_whole_trace)
{
    pid_t child = fork();
    if (child == 0) {
        session_start(ACTION_ACTIVE, false);
        session_open("open");
        for (unsigned i = 0;; i++) {
            session_span("span");
            if (i % 20 == 0)
                session_sleep(5);
        }
    }
    char path[256];
    snprintf(path, sizeof path, "%s/t0.json.%d.0.part", session_folder, (int)child);
    unsigned spans = under_valgrind() ? 20 : 100;
    wait_for_flush(path,
                   (off_t)(spans + 1) * 400 + 20000); /* the head is 16 KB, an event 200 bytes */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    struct trace t = trace_read(path);
    ck_assert_uint_gt(trace_named(&t, 'X', "span"), spans);
    ck_assert_uint_eq(trace_named(&t, 'X', "open"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"complete\": false"));
    trace_free(&t);
}
END_TEST

/* A line of /proc/self/task/TID/status of the thread named cprof. Fails if there is no such
 * thread. */
static const char *of_the_thread(const char *key)
{
    static char line[256];
    char path[64];
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (const struct dirent *task; (task = readdir(tasks));) {
        bool found = false;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file)) {
            found = found || strcmp(line, "Name:\tcprof\n") == 0;
            if (found && strncmp(line, key, strlen(key)) == 0) {
                fclose(file);
                closedir(tasks);
                return line + strlen(key);
            }
        }
        if (file)
            fclose(file);
    }
    ck_abort_msg("there is no thread named cprof");
    return NULL;
}

START_TEST(the_thread_is_a_good_guest)
{
    cpu_set_t mask, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    session_options.affinity = &mask;
    session_options.affinity_size = sizeof mask;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &mask))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0); /* as OpenMP pins */
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    session_start(ACTION_ACTIVE, false);
    session_sleep(50);
    uint64_t blocked = strtoull(of_the_thread("SigBlk:"), NULL, 16);
    static const int signals[] = {SIGINT, SIGTERM, SIGPIPE, SIGPROF, SIGUSR1, SIGCHLD, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        ck_assert(blocked >> (signals[i] - 1) & 1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 64; i++)
        ck_assert_int_eq(sigismember(&before, i), sigismember(&after, i));
    char cpus[64], expected[64];
    snprintf(cpus, sizeof cpus, "%s", of_the_thread("Cpus_allowed_list:"));
    FILE *file = fopen("/proc/self/status", "re");
    while (fgets(expected, sizeof expected, file) &&
           strncmp(expected, "Cpus_allowed_list:", 18) != 0)
        ;
    fclose(file);
    ck_assert(CPU_COUNT(&mask) == 1 || strcmp(cpus, expected + 18) != 0);
    id_t thread = (id_t)atoi(of_the_thread("Pid:"));
    ck_assert_int_eq(getpriority(PRIO_PROCESS, thread), getpriority(PRIO_PROCESS, 0));
    session_end();
}
END_TEST

START_TEST(an_idle_cprof_thread_does_not_wake_up)
{
    session_start(ACTION_SKIP, false);
    session_sleep(100);
    uint64_t before = strtoull(of_the_thread("voluntary_ctxt_switches:"), NULL, 10);
    for (unsigned i = 0; i < 200; i++)
        session_step(ACTION_SKIP);
    session_sleep(300);
    uint64_t after = strtoull(of_the_thread("voluntary_ctxt_switches:"), NULL, 10);
    ck_assert_uint_le(after - before, 3);
    session_end();
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

Suite *suite_writer_failures(void)
{
    Suite *suite = suite_create("writer_failures");
    TCase *failures = tcase_create("failures");
    tcase_add_checked_fixture(failures, session_setup, session_teardown);
    tcase_set_timeout(failures, 60);
    tcase_add_test(failures, a_full_queue_of_edges_turns_recording_off_until_it_is_empty);
    tcase_add_test(failures, the_first_step_behind_a_full_queue);
    tcase_add_test(failures, a_folder_that_is_a_file);
    tcase_add_test(failures, the_gpu_is_not_recorded_when_writing_has_failed);
    tcase_add_test(failures, no_memory_for_a_window);
    tcase_add_test(failures, no_thread_to_be_had);
    tcase_add_test(failures, no_key_to_be_had);
    tcase_add_test(failures, the_deadline_at_exit_holds);
    tcase_add_loop_test(failures, traces_of_an_earlier_run_are_in_the_way, 0, 5);
    tcase_add_test(failures, a_name_that_is_taken);
    tcase_add_test(failures, a_forked_child_is_inert);
    tcase_add_test(failures, a_killed_process_leaves_a_whole_trace);
    tcase_add_test(failures, the_thread_is_a_good_guest);
    tcase_add_test(failures, an_idle_cprof_thread_does_not_wake_up);
    suite_add_tcase(suite, failures);
    return suite;
}
