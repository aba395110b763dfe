/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/steps/steps.h: the gate in each kind of step, the sources of marks, and the
 * files that steps, epochs and regions leave. This process has no torch. */
#include "preload/steps/steps.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/settings/identity.h"
#include "preload/core/life.h"
#include "preload/settings/schedule.h"
#include "tests/support/capture.h"
#include "tests/support/sanitizer.h"
#include "tests/support/session.h"
#include "tests/support/stepping.h"

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
    check_step(0, ACTION_SKIP, GATE_SKIPPED);
    MARK();
    check_step(1, ACTION_WARMUP, GATE_MARKERS);
    MARK();
    check_step(2, ACTION_ACTIVE, active);
    MARK();
    check_step(3, ACTION_ACTIVE_AND_SAVE, active);
    MARK();
    check_step(4, ACTION_SKIP, GATE_SKIPPED);
    finish();
    check_gate(0, "the end");
    MARK();
    check_gate(0, "the end");
    ck_assert_int_eq(steps_current(), 4);
}
END_TEST

START_TEST(records_a_kept_step_0_without_shapes)
{
    config.warmup = _i;
    config.wait = !_i; /* step 0 is skipped, or is a warmup */
    start(true);
    check_step(0, _i ? ACTION_WARMUP : ACTION_SKIP, (ALL & ~GATE_SHAPES) | (_i ? 0 : GATE_SKIPPED));
    MARK();
    check_step(1, ACTION_ACTIVE, ALL);
    MARK();
    MARK();
    check_step(3, ACTION_SKIP, GATE_SKIPPED);
    finish();
}
END_TEST

START_TEST(saves_an_active_step_0_as_partial)
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

START_TEST(records_all_steps_without_a_schedule)
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

/* ---- sources of marks ---- */

START_TEST(listens_only_to_the_configured_source)
{
    static const struct {
        int setting;
        enum step_source source;
    } rows[] = {{CONFIG_STEP_AUTO, STEP_OPTIMIZER},
                {CONFIG_STEP_MANUAL, STEP_CALL},
                {CONFIG_STEP_DATALOADER, STEP_DATALOADER},
                {CONFIG_STEP_FORWARD, STEP_FORWARD},
                {CONFIG_STEP_OPTIMIZER, STEP_OPTIMIZER}};
    config.step = rows[_i].setting;
    ck_assert(!steps_listen_to(STEP_OPTIMIZER)); /* not awake yet */
    steps_mark(STEP_OPTIMIZER, 0);
    start(false);
    /* Makes the step long: a call within 1/8 of a step after the optimizer's mark is the same
     * step. */
    usleep(under_valgrind() ? 2000000 : 200000);
    int64_t marks = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (rows[i].source == STEP_CALL)
            continue;
        ck_assert_int_eq(steps_listen_to(rows[i].source), rows[i].source == rows[_i].source);
        steps_mark(rows[i].source, 0);
        marks += rows[i].source == rows[_i].source;
        ck_assert_int_eq(steps_current(), marks);
    }
    /* A call counts with every setting, and from now on the other sources are ignored. After the
     * optimizer's mark, this call belongs to the same step and does not count. */
    MARK();
    marks += rows[_i].source != STEP_OPTIMIZER;
    ck_assert_int_eq(steps_current(), marks);
    MARK();
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

START_TEST(counts_marks_of_many_threads)
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
static bool cprof_thread_runs(void)
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

START_TEST(starts_the_cprof_thread_at_the_first_warmup)
{
    config.wait = 3;
    start(false);
    MARK();
    MARK();
    usleep(20000);
    ck_assert(!cprof_thread_runs());
    MARK(); /* warmup */
    for (unsigned i = 0; i < 2000 && !cprof_thread_runs(); i++)
        usleep(1000);
    ck_assert(cprof_thread_runs());
    finish();
    ck_assert_uint_eq(session_files(""), 0);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "nothing was recorded"), 1);
}
END_TEST

START_TEST(saves_one_trace_per_cycle)
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

START_TEST(saves_a_partial_trace_at_exit)
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

START_TEST(ends_a_step_at_the_given_time)
{
    config.wait = config.warmup = 0;
    config.active = 3;
    start(false);
    usleep(20000);
    uint64_t ticks = clock_ticks(); /* the optimizer's range ended here */
    usleep(50000);
    steps_mark(STEP_OPTIMIZER, ticks);
    steps_mark(STEP_OPTIMIZER, 0);
    finish();
    struct trace t = session_trace(2);
    double first = trace_number(trace_event(&t, 'X', "ProfilerStep#0"), "dur");
    double second = trace_number(trace_event(&t, 'X', "ProfilerStep#1"), "dur");
    ck_assert(first > 15000);
    ck_assert(second > 45000);
    double start_0 = trace_number(trace_event(&t, 'X', "ProfilerStep#0"), "ts");
    double start_1 = trace_number(trace_event(&t, 'X', "ProfilerStep#1"), "ts");
    ck_assert_double_eq_tol(start_0 + first, start_1, 0.01); /* steps are contiguous */
    trace_free(&t);
}
END_TEST

/* Ranges end on two threads. The mark of the range that ends later arrives first. */
START_TEST(edges_never_go_back)
{
    config.wait = config.warmup = 0;
    config.active = 3;
    start(false);
    uint64_t first = clock_ticks();
    usleep(2000);
    steps_mark(STEP_OPTIMIZER, clock_ticks());
    usleep(2000);
    steps_mark(STEP_OPTIMIZER, first);
    steps_mark(STEP_OPTIMIZER, clock_ticks());
    finish();
    struct trace t = session_trace(3);
    double end = 0;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        const char *step = trace_event(&t, 'X', name);
        ck_assert_double_ge(trace_number(step, "ts"), end - 0.0005);
        ck_assert_double_ge(trace_number(step, "dur"), 0);
        end = trace_number(step, "ts") + trace_number(step, "dur");
    }
    trace_free(&t);
}
END_TEST

START_TEST(saves_a_trace_without_step_marks)
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

START_TEST(launcher_saves_no_trace_beside_its_ranks)
{
    char path[160];
    start(true);
    session_span("of the launcher");
    snprintf(path, sizeof path, "%s/rank3.json", session_folder);
    fclose(fopen(path, "we")); /* written by a rank in the meantime */
    pid_t rank = fork();
    if (rank == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(rank, NULL, 0), rank);
    finish();
    ck_assert_uint_eq(session_files(""), 1);
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

/* ---- epochs ---- */

/* Runs epochs of these lengths (0 ends the list), each ended by a call. Checks the action of
 * each batch. */
static void check_epochs(const int64_t *lengths)
{
    struct schedule s = {.skip_first = config.skip_first,
                         .wait = config.wait,
                         .warmup = config.warmup,
                         .active = config.active,
                         .repeat = config.repeat,
                         .scope = SCHEDULE_EPOCH};
    for (; *lengths; lengths++) {
        for (int64_t batch = 0; batch < *lengths; batch++) {
            ck_assert_int_eq(steps_action(), schedule_action(&s, batch));
            session_span("batch");
            MARK();
        }
        steps_end_epoch(true);
    }
}

START_TEST(epochs_replay_the_schedule)
{
    /* Skip 2, then twice wait 1, warm up 1, record 3: steps 4 to 6 and 9 to 11 of each epoch. An
     * epoch's end saves an active window early. */
    static const int64_t lengths[] = {14, 6, 3, 11, 0};
    config.schedule_scope = SCHEDULE_EPOCH;
    config.skip_first = 2;
    config.active = 3;
    config.repeat = 2;
    name_files("e{epoch}-b{batch}-i{batch_in_epoch}.json");
    start(false);
    check_epochs(lengths);
    finish();
    static const struct {
        const char *name;
        int first, last;
    } wanted[] = {{"e0-b7-i7.json", 4, 6},
                  {"e0-b12-i12.json", 9, 11},
                  {"e1-b20-i6.json", 18, 19}, /* the second epoch has two active batches */
                  {"e3-b30-i7.json", 27, 29},
                  {"e3-b34-i11.json", 32, 33}};
    ck_assert_uint_eq(session_files(""), 5);
    for (unsigned i = 0; i < 5; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", session_folder, wanted[i].name);
        struct trace t = trace_read(path);
        ck_assert_int_eq((int)trace_number(t.text, "first_step"), wanted[i].first);
        ck_assert_int_eq((int)trace_number(t.text, "last_step"), wanted[i].last);
        ck_assert_uint_eq(trace_named(&t, 'X', "batch"),
                          (unsigned)(wanted[i].last - wanted[i].first + 1));
        ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": false"));
        trace_free(&t);
    }
}
END_TEST

START_TEST(saves_adjacent_windows_in_each_epoch)
{
    static const int64_t lengths[] = {4, 4, 4, 0};
    config.schedule_scope = SCHEDULE_EPOCH;
    config.wait = config.warmup = 0;
    config.active = 2;
    config.repeat = 0;
    start(false);
    check_epochs(lengths);
    session_span("of no epoch"); /* the program ends here: its trace is partial */
    finish();
    ck_assert_uint_eq(session_files(""), 7);
    for (int64_t batch = 2; batch <= 12; batch += 2) {
        struct trace t = session_trace(batch);
        ck_assert_uint_eq(trace_named(&t, 'X', "batch"), 2);
        trace_free(&t);
    }
}
END_TEST

START_TEST(discards_events_after_an_epochs_last_step)
{
    config.schedule_scope = SCHEDULE_EPOCH;
    config.wait = 0;
    config.active = 2;
    config.repeat = 0;
    start(false);
    for (int i = 0; i < 4; i++) /* the fifth would be active */
        MARK();
    session_span("validation");
    usleep(300000); /* long enough to create the window's file */
    steps_end_epoch(true);
    ck_assert_int_eq(steps_action(), ACTION_WARMUP);
    finish();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "validation"), 0);
    trace_free(&t);
}
END_TEST

START_TEST(names_files_by_samples_tokens_and_times)
{
    config.wait = 0;
    config.active = 1;
    config.repeat = 0;
    name_files("{epoch}.{batch}.{batch_in_epoch}.{sample}.{sample_in_epoch}.{token}.{token_in_"
               "epoch}.{total_wct}.{batch}e{epoch_wct}.{batch_wct}");
    start(false);
    steps_mark_batch(STEP_CALL, 0, 8, 100);
    steps_mark_batch(STEP_CALL, 0, 8, -5);
    steps_end_epoch(true);
    sleep(1);
    steps_mark_batch(STEP_CALL, 0, 3, 10);
    steps_mark_batch(STEP_CALL, 0, INT64_MAX, 1);
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    ck_assert_uint_eq(session_files("0.2.2.16.16.100.100."), 1);
    ck_assert_uint_eq(session_files("1.4.2.9223372036854775807.9223372036854775807.111.11.1."), 1);
    ck_assert_uint_eq(session_files(".4e1."), 1);
}
END_TEST

START_TEST(counts_each_epoch_end_once)
{
    name_files("{epoch}.{batch}.json");
    config.wait = config.warmup = 0;
    config.active = 1;
    config.repeat = 0;
    start(false);
    MARK();
    steps_end_epoch(false);
    MARK();
    steps_end_epoch(false);
    steps_end_epoch(true); /* the same end again */
    MARK();
    steps_end_epoch(false); /* no effect */
    steps_end_epoch(true);
    steps_end_epoch(true); /* an epoch without a batch */
    MARK();
    finish();
    ck_assert_uint_eq(session_files(""), 4);
    ck_assert_uint_eq(session_files("0.1.json"), 1);
    ck_assert_uint_eq(session_files("1.2.json"), 1);
    ck_assert_uint_eq(session_files("2.3.json"), 1);
    ck_assert_uint_eq(session_files("4.4.json"), 1);
}
END_TEST

/* ---- regions ---- */

START_TEST(records_regions_and_nothing_else)
{
    config.wait = 0;
    name_files("{batch}.json");
    config.repeat = 0;
    start(true);
    session_span("step 0");
    MARK();
    session_span("thrown away");
    session_await(".part", 1); /* its file exists; the region's start removes it */
    steps_region(true);
    check_step(1, ACTION_WARMUP, ALL & ~GATE_SHAPES);
    MARK();
    check_step(2, ACTION_ACTIVE, ALL);
    steps_region(true); /* nested: does not restart recording */
    steps_region(false);
    MARK();
    check_step(3, ACTION_ACTIVE_AND_SAVE, ALL);
    session_span("saved");
    steps_region(false);
    check_step(3, ACTION_SKIP, 0);
    steps_region(false);
    MARK();
    MARK();
    check_step(5, ACTION_SKIP, 0);
    steps_region(true);
    check_step(5, ACTION_WARMUP, ALL & ~GATE_SHAPES);
    MARK();
    MARK();
    MARK();
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    char path[256];
    snprintf(path, sizeof path, "%s/3.json", session_folder);
    struct trace t = trace_read(path);
    ck_assert_uint_eq(trace_named(&t, 'X', "saved"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#2"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "thrown away"), 0);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL), 2);
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": true"));
    trace_free(&t);
    ck_assert_uint_eq(session_files("8.json"), 1);
}
END_TEST

START_TEST(saves_each_region_without_step_marks)
{
    start(true);
    session_span("before");
    for (int i = 0; i < 2; i++) {
        steps_region(true);
        session_span("inside");
        steps_region(false);
        session_span("outside");
    }
    steps_region(true);
    session_span("inside");
    finish(); /* without ending the region */
    ck_assert_uint_eq(session_files(""), 3);
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL), 1);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "no step was marked"), 1); /* the last */
}
END_TEST

START_TEST(saves_each_region_without_a_schedule)
{
    config.schedule_scope = SCHEDULE_NONE;
    name_files("{batch}.json");
    session_options.continuous = true;
    start(false);
    session_span("before");
    MARK();
    for (int i = 0; i < 2; i++) {
        steps_region(true);
        session_span("inside");
        MARK();
        steps_region(false);
        MARK();
    }
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    ck_assert_uint_eq(session_files("2.json"), 1);
    ck_assert_uint_eq(session_files("4.json"), 1);
}
END_TEST

START_TEST(counts_batches_from_the_start_of_a_region)
{
    config.schedule_scope = SCHEDULE_EPOCH;
    config.wait = 0;
    config.active = 1;
    start(false);
    for (int i = 0; i < 5; i++)
        MARK();
    steps_region(true);
    ck_assert_int_eq(steps_action(), ACTION_WARMUP);
    MARK();
    ck_assert_int_eq(steps_action(), ACTION_ACTIVE_AND_SAVE);
    steps_end_epoch(true);
    ck_assert_int_eq(steps_action(), ACTION_WARMUP);
    MARK();
    ck_assert_int_eq(steps_action(), ACTION_ACTIVE_AND_SAVE);
    MARK();
    ck_assert_int_eq(steps_action(), ACTION_SKIP);
    finish();
}
END_TEST

Suite *suite_steps(void)
{
    Suite *suite = suite_create("steps");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, session_teardown);
    tcase_set_timeout(all, 30);
    tcase_add_loop_test(all, gates_follow_the_schedule, 0, 8);
    tcase_add_loop_test(all, records_a_kept_step_0_without_shapes, 0, 2);
    tcase_add_test(all, saves_an_active_step_0_as_partial);
    tcase_add_test(all, records_all_steps_without_a_schedule);
    tcase_add_loop_test(all, listens_only_to_the_configured_source, 0, 5);
    tcase_add_test(all, counts_marks_of_many_threads);
    tcase_add_test(all, starts_the_cprof_thread_at_the_first_warmup);
    tcase_add_test(all, saves_one_trace_per_cycle);
    tcase_add_test(all, saves_a_partial_trace_at_exit);
    tcase_add_test(all, ends_a_step_at_the_given_time);
    tcase_add_test(all, edges_never_go_back);
    tcase_add_test(all, saves_a_trace_without_step_marks);
    tcase_add_test(all, launcher_saves_no_trace_beside_its_ranks);
    tcase_add_test(all, epochs_replay_the_schedule);
    tcase_add_test(all, saves_adjacent_windows_in_each_epoch);
    tcase_add_test(all, discards_events_after_an_epochs_last_step);
    tcase_add_test(all, names_files_by_samples_tokens_and_times);
    tcase_add_test(all, counts_each_epoch_end_once);
    tcase_add_test(all, records_regions_and_nothing_else);
    tcase_add_test(all, saves_each_region_without_step_marks);
    tcase_add_test(all, saves_each_region_without_a_schedule);
    tcase_add_test(all, counts_batches_from_the_start_of_a_region);
    suite_add_tcase(suite, all);
    return suite;
}
