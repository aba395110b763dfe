/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/writer.h under failures: full queues, missing folders, no memory, taken names,
 * forks, kills. Also tests the attributes of the cprof thread. */
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

/* While held_back is true, the cprof thread waits inside this test's callback. */
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

START_TEST(full_edge_queue_pauses_recording)
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
    ck_assert_uint_eq(session_files(".part"), 0); /* the records before the pause are a trace */
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

/* The first step after the pause opens a window. The window counts only its own losses, and its
 * file is written at once, also during a long step. */
START_TEST(step_after_a_full_queue_opens_a_window)
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
    session_sleep(100); /* nothing is recorded, so the cprof thread sleeps too */
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

START_TEST(stops_recording_when_folder_is_a_file)
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

/* CUPTI makes each launch slower, and nothing uses its records any more. */
START_TEST(stops_gpu_recording_after_write_failure)
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

START_TEST(recovers_from_a_window_without_memory)
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

START_TEST(closes_the_gate_without_a_thread)
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

START_TEST(does_not_start_without_a_key)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    ck_assert(!writer_start(&session_options));
    ck_assert_ptr_null(thread_log_get());
    ck_assert_uint_eq(capture_lines(capture_stderr(), "nothing is recorded"), 1);
}
END_TEST

START_TEST(exit_keeps_its_deadline)
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

START_TEST(earlier_traces_stop_recording)
{
    char file[160];
    snprintf(file, sizeof file, "%s/t7.json", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    session_options.trace_pattern = pattern;
    session_options.renamed_by = "CPROF_FOLDER";
    session_options.overwrite = _i == 1;
    session_options.run_started_ns = clock_wall_now() + INT64_C(3600000000000);
    if (_i == 2)
        session_options.run_started_ns = 1; /* the file belongs to this run */
    bool stops = _i == 0 || _i == 4;
    if (_i >= 3) { /* the file is older than the run; 3: the run has no name */
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

START_TEST(numbers_a_trace_whose_name_is_taken)
{
    char file[160];
    struct stat st;
    snprintf(file, sizeof file, "%s/t0.json", session_folder);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_int_eq(st.st_size, 0); /* the other program's file is unchanged */
    snprintf(file, sizeof file, "%s/t0-2.json", session_folder);
    struct trace t = trace_read(file);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "/t0-2.json\"\n}")); /* the trace holds its own name */
    trace_free(&t);
}
END_TEST

/* ---- processes and threads ------------------------------------------------------------------- */

START_TEST(forked_child_records_nothing)
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

/* Waits until the file has this size and no flush is under way: the file has not changed for a
 * while. */
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

START_TEST(killed_process_leaves_a_valid_trace)
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

/* The rest of the line `key` in /proc/self/task/TID/status of the thread named cprof. Fails without
 * such a thread. */
static const char *cprof_thread_status(const char *key)
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

START_TEST(cprof_thread_blocks_signals_and_resets_affinity)
{
    cpu_set_t mask, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    session_options.affinity = &mask;
    session_options.affinity_size = sizeof mask;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &mask))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one),
                     0); /* OpenMP pins threads in this way */
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    session_start(ACTION_ACTIVE, false);
    session_sleep(50);
    uint64_t blocked = strtoull(cprof_thread_status("SigBlk:"), NULL, 16);
    static const int signals[] = {SIGINT, SIGTERM, SIGPIPE, SIGPROF, SIGUSR1, SIGCHLD, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        ck_assert(blocked >> (signals[i] - 1) & 1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 64; i++)
        ck_assert_int_eq(sigismember(&before, i), sigismember(&after, i));
    char cpus[64], expected[64];
    snprintf(cpus, sizeof cpus, "%s", cprof_thread_status("Cpus_allowed_list:"));
    FILE *file = fopen("/proc/self/status", "re");
    while (fgets(expected, sizeof expected, file) &&
           strncmp(expected, "Cpus_allowed_list:", 18) != 0)
        ;
    fclose(file);
    ck_assert(CPU_COUNT(&mask) == 1 || strcmp(cpus, expected + 18) != 0);
    id_t thread = (id_t)atoi(cprof_thread_status("Pid:"));
    ck_assert_int_eq(getpriority(PRIO_PROCESS, thread), getpriority(PRIO_PROCESS, 0));
    session_end();
}
END_TEST

START_TEST(idle_cprof_thread_does_not_wake_up)
{
    session_start(ACTION_SKIP, false);
    session_sleep(100);
    uint64_t before = strtoull(cprof_thread_status("voluntary_ctxt_switches:"), NULL, 10);
    for (unsigned i = 0; i < 200; i++)
        session_step(ACTION_SKIP);
    session_sleep(300);
    uint64_t after = strtoull(cprof_thread_status("voluntary_ctxt_switches:"), NULL, 10);
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
    tcase_add_test(failures, full_edge_queue_pauses_recording);
    tcase_add_test(failures, step_after_a_full_queue_opens_a_window);
    tcase_add_test(failures, stops_recording_when_folder_is_a_file);
    tcase_add_test(failures, stops_gpu_recording_after_write_failure);
    tcase_add_test(failures, recovers_from_a_window_without_memory);
    tcase_add_test(failures, closes_the_gate_without_a_thread);
    tcase_add_test(failures, does_not_start_without_a_key);
    tcase_add_test(failures, exit_keeps_its_deadline);
    tcase_add_loop_test(failures, earlier_traces_stop_recording, 0, 5);
    tcase_add_test(failures, numbers_a_trace_whose_name_is_taken);
    tcase_add_test(failures, forked_child_records_nothing);
    tcase_add_test(failures, killed_process_leaves_a_valid_trace);
    tcase_add_test(failures, cprof_thread_blocks_signals_and_resets_affinity);
    tcase_add_test(failures, idle_cprof_thread_does_not_wake_up);
    suite_add_tcase(suite, failures);
    return suite;
}
