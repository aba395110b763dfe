/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/steps.h: the gate in each kind of step, who may mark one, and the edges as the files show them. No torch is in
 * this process. */
#include "preload/steps.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/identity.h"
#include "preload/init.h"
#include "preload/schedule.h"
#include "tests/support/capture.h"
#include "tests/support/session.h"

static struct config config;

static void setup(void)
{
    session_setup();
    config = (struct config){.wait = 1,
                             .warmup = 1,
                             .active = 2,
                             .repeat = 1,
                             .profile_memory = true,
                             .record_shapes = true,
                             .activities = CONFIG_ACTIVITY_CPU | CONFIG_ACTIVITY_CUDA,
                             .run_name = "unit",
                             .folder = session_folder,
                             .filename = "rank{rank}.json"};
    identity_start(&config);
    atomic_store(&cprof_life, LIFE_AWAKE);
}

static void start(bool keep)
{
    ck_assert(writer_start(&session_options));
    steps_start(&config, keep);
}

static void finish(void)
{
    steps_finish();
    writer_finish();
}

#define ALL    (GATE_SPANS | GATE_MARKERS | GATE_MEMORY | GATE_SHAPES | GATE_CALLS)
#define MARK() steps_mark(STEP_CALL, 0)

static void check_gate(uint32_t bits, const char *when)
{
    for (uint32_t bit = 1; bit < 1u << GATE_BITS; bit <<= 1)
        ck_assert_msg(gate_open(bit) == ((bits & bit) != 0), "gate bit %u is %d in %s", bit,
                      gate_open(bit), when);
}

static void check_step(int64_t step, enum action action, uint32_t gate)
{
    char when[32];
    snprintf(when, sizeof when, "step %lld", (long long)step);
    ck_assert_int_eq(steps_current(), step);
    ck_assert_int_eq(steps_action(), action);
    check_gate(gate, when);
}

/* ---- the gate ---- */

START_TEST(gates_follow_the_schedule)
{
    uint32_t active = GATE_SPANS | GATE_MARKERS;
    config.profile_memory = _i & 1;
    config.record_shapes = _i & 2;
    config.activities = CONFIG_ACTIVITY_CPU | (_i & 4 ? CONFIG_ACTIVITY_CUDA : 0);
    active |= (_i & 1 ? GATE_MEMORY : 0) | (_i & 2 ? GATE_SHAPES : 0) | (_i & 4 ? GATE_CALLS : 0);
    ck_assert_int_eq(steps_current(), 0);
    ck_assert_int_eq(steps_action(), ACTION_SKIP);
    start(false);
    check_step(0, ACTION_SKIP, 0);
    MARK();
    check_step(1, ACTION_WARMUP, GATE_MARKERS);
    MARK();
    check_step(2, ACTION_ACTIVE, active);
    MARK();
    check_step(3, ACTION_ACTIVE_AND_SAVE, active);
    MARK();
    check_step(4, ACTION_SKIP, 0);
    finish();
    check_gate(0, "the end");
    MARK();
    check_gate(0, "the end");
    ck_assert_int_eq(steps_current(), 4);
}
END_TEST

START_TEST(step_0_that_is_kept_is_recorded_without_shapes)
{
    config.warmup = _i;
    config.wait = !_i; /* step 0 is one to skip, or one to warm up in */
    start(true);
    check_step(0, _i ? ACTION_WARMUP : ACTION_SKIP, ALL & ~GATE_SHAPES);
    MARK();
    check_step(1, ACTION_ACTIVE, ALL);
    MARK();
    MARK();
    check_step(3, ACTION_SKIP, 0);
    finish();
}
END_TEST

START_TEST(nothing_to_keep_where_step_0_is_active)
{
    config.wait = config.warmup = 0;
    start(true);
    check_step(0, ACTION_ACTIVE, ALL);
    session_span("span");
    finish();
    struct trace t = session_trace(0);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": true"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": true"));
    trace_free(&t);
}
END_TEST

START_TEST(without_a_schedule_all_is_active)
{
    config.schedule_scope = SCHEDULE_NONE;
    session_options.continuous = true;
    start(false);
    for (int64_t i = 0; i < 20; i++) {
        check_step(i, ACTION_ACTIVE, ALL);
        MARK();
    }
    finish();
    ck_assert_uint_eq(session_files(""), 1);
}
END_TEST

/* ---- who marks ---- */

START_TEST(sources)
{
    static const struct {
        int setting;
        enum step_source source;
    } rows[] = {{CONFIG_STEP_AUTO, STEP_OPTIMIZER},
                {CONFIG_STEP_MANUAL, STEP_CALL},
                {CONFIG_STEP_DATALOADER, STEP_DATALOADER},
                {CONFIG_STEP_FORWARD, STEP_FORWARD}};
    config.step = rows[_i].setting;
    ck_assert(!steps_listen_to(STEP_OPTIMIZER)); /* asleep */
    steps_mark(STEP_OPTIMIZER, 0);
    start(false);
    int64_t marks = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (rows[i].source == STEP_CALL)
            continue;
        ck_assert_int_eq(steps_listen_to(rows[i].source), rows[i].source == rows[_i].source);
        steps_mark(rows[i].source, 0);
        marks += rows[i].source == rows[_i].source;
        ck_assert_int_eq(steps_current(), marks);
    }
    MARK(); /* counts whatever the setting, and silences the others */
    ck_assert_int_eq(steps_current(), ++marks);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(steps_listen_to(rows[i].source), rows[i].source == STEP_CALL);
        if (rows[i].source != STEP_CALL)
            steps_mark(rows[i].source, 0);
    }
    ck_assert_int_eq(steps_current(), marks);
    finish();
}
END_TEST

static void *mark_many(void *unused)
{
    for (unsigned i = 0; i < 100; i++)
        MARK();
    return unused;
}

START_TEST(marks_of_many_threads)
{
    config.schedule_scope = SCHEDULE_NONE;
    session_options.continuous = true;
    start(false);
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, mark_many, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(steps_current(), 400);
    finish();
    struct trace t = session_trace(400);
    ck_assert_uint_eq(trace_count(&t, 'X', "ProfilerStep#"), 400);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#399"), 1);
    trace_free(&t);
}
END_TEST

/* ---- edges ---- */

/* True when a thread of this process is named cprof. */
static bool thread_runs(void)
{
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        found = found || (fgets(name, sizeof name, file) && strcmp(name, "cprof\n") == 0);
        fclose(file);
    }
    closedir(tasks);
    return found;
}

START_TEST(the_thread_starts_when_a_step_needs_it)
{
    config.wait = 3;
    start(false);
    MARK();
    MARK();
    usleep(20000);
    ck_assert(!thread_runs());
    MARK(); /* warmup */
    for (unsigned i = 0; i < 2000 && !thread_runs(); i++)
        usleep(1000);
    ck_assert(thread_runs());
    finish();
    ck_assert_uint_eq(session_files(""), 0);
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

START_TEST(windows_of_the_schedule)
{
    config.repeat = 2;
    start(false);
    for (unsigned i = 0; i < 12; i++) {
        session_span("span");
        MARK();
    }
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    for (unsigned cycle = 0; cycle < 2; cycle++) {
        struct trace t = session_trace(4 + 4 * cycle);
        ck_assert_uint_eq(trace_named(&t, 'X', "span"), 2);
        ck_assert_int_eq((int)trace_number(t.text, "first_step"), 2 + 4 * (int)cycle);
        ck_assert_int_eq((int)trace_number(t.text, "last_step"), 3 + 4 * (int)cycle);
        ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": false"));
        trace_free(&t);
    }
}
END_TEST

START_TEST(an_exit_in_the_middle_saves_what_there_is)
{
    config.wait = config.warmup = 0;
    config.active = 5;
    start(false);
    MARK();
    MARK();
    session_span("last");
    finish();
    finish();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "last"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#1"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#2"), 0); /* it did not end */
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": true"));
    trace_free(&t);
}
END_TEST

START_TEST(an_edge_can_be_given_its_time)
{
    config.wait = config.warmup = 0;
    config.active = 3;
    start(false);
    usleep(20000);
    uint64_t ticks = clock_ticks(); /* the optimizer's range ended here */
    usleep(50000);
    steps_mark(STEP_OPTIMIZER, ticks);
    MARK();
    finish();
    struct trace t = session_trace(2);
    double first = trace_number(trace_event(&t, 'X', "ProfilerStep#0"), "dur");
    double second = trace_number(trace_event(&t, 'X', "ProfilerStep#1"), "dur");
    ck_assert(first > 15000);
    ck_assert(second > 45000);
    double start_0 = trace_number(trace_event(&t, 'X', "ProfilerStep#0"), "ts");
    double start_1 = trace_number(trace_event(&t, 'X', "ProfilerStep#1"), "ts");
    ck_assert_double_eq_tol(start_0 + first, start_1, 0.01); /* steps follow each other */
    trace_free(&t);
}
END_TEST

START_TEST(a_program_without_marks_gets_its_trace)
{
    start(true);
    session_span("all there is");
    finish();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "all there is"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": false"));
    trace_free(&t);
}
END_TEST

START_TEST(a_launcher_leaves_none_beside_its_ranks)
{
    char path[160];
    start(true);
    session_span("of the launcher");
    snprintf(path, sizeof path, "%s/rank3.json", session_folder);
    fclose(fopen(path, "we")); /* what a rank wrote meanwhile */
    finish();
    ck_assert_uint_eq(session_files(""), 1);
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

Suite *suite_steps(void)
{
    Suite *suite = suite_create("steps");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, session_teardown);
    tcase_set_timeout(all, 30);
    tcase_add_loop_test(all, gates_follow_the_schedule, 0, 8);
    tcase_add_loop_test(all, step_0_that_is_kept_is_recorded_without_shapes, 0, 2);
    tcase_add_test(all, nothing_to_keep_where_step_0_is_active);
    tcase_add_test(all, without_a_schedule_all_is_active);
    tcase_add_loop_test(all, sources, 0, 4);
    tcase_add_test(all, marks_of_many_threads);
    tcase_add_test(all, the_thread_starts_when_a_step_needs_it);
    tcase_add_test(all, windows_of_the_schedule);
    tcase_add_test(all, an_exit_in_the_middle_saves_what_there_is);
    tcase_add_test(all, an_edge_can_be_given_its_time);
    tcase_add_test(all, a_program_without_marks_gets_its_trace);
    tcase_add_test(all, a_launcher_leaves_none_beside_its_ranks);
    suite_add_tcase(suite, all);
    return suite;
}
