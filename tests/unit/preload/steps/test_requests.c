/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/steps/requests.h: a callback of the program that chooses each step's action. The
 * callback may take long, be left by a jump, or end its thread. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/stepping.h"

static int64_t asked[64];
static struct train_time asked_at[64];
static unsigned n_asked;

/* Records every third step from step 1 on. Marks a step itself; that mark does not count. */
static int choose(const struct train_time *time, int64_t number, void *answer)
{
    asked[n_asked] = number;
    asked_at[n_asked++] = *time;
    MARK();
    return answer ? *(int *)answer : number % 3 == 1 ? ACTION_ACTIVE_AND_SAVE : ACTION_SKIP;
}

START_TEST(asks_the_callback_for_each_step)
{
    config.wait = config.warmup = 0;
    name_files("{batch}.json");
    start(false);
    session_span("step 0 by the settings' schedule");
    steps_choose_by(choose, NULL);
    check_step(0, ACTION_SKIP, GATE_SKIPPED);
    for (int i = 0; i < 6; i++) {
        session_span("span");
        steps_mark_batch(STEP_CALL, 0, 2, 0);
    }
    steps_end_epoch(true);
    ck_assert_uint_eq(n_asked, 8);
    for (unsigned i = 0; i < 7; i++) {
        ck_assert_int_eq(asked[i], i);
        ck_assert_int_eq(asked_at[i].batch, i);
        ck_assert_int_eq(asked_at[i].sample, 2 * i);
        ck_assert_int_eq(asked_at[i].epoch, 0);
    }
    ck_assert_int_eq(asked[7], 6);
    ck_assert_int_eq(asked_at[7].epoch, 1);
    ck_assert_int_eq(asked_at[7].sample_in_epoch, 0);
    ck_assert(asked_at[7].total_wct_ns > 0);
    steps_choose_by(NULL, NULL);
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    ck_assert_uint_eq(session_files("2.json"), 1);
    ck_assert_uint_eq(session_files("5.json"), 1);
}
END_TEST

START_TEST(skips_invalid_actions_with_one_line)
{
    int answer = 4;
    start(false);
    steps_choose_by(choose, &answer);
    MARK();
    answer = -1;
    MARK();
    check_step(2, ACTION_SKIP, GATE_SKIPPED);
    answer = ACTION_WARMUP;
    MARK();
    check_step(3, ACTION_WARMUP, GATE_MARKERS);
    answer = ACTION_ACTIVE;
    MARK();
    check_step(4, ACTION_ACTIVE, ALL);
    finish();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "returned 4, which is no action"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "which is no action"), 1);
}
END_TEST

START_TEST(asks_the_callback_only_inside_regions)
{
    start(false);
    steps_choose_by(choose, NULL);
    MARK();
    steps_region(true);
    ck_assert_int_eq(asked[2], 0); /* step numbers count from the region's start */
    MARK();
    check_step(2, ACTION_ACTIVE_AND_SAVE, ALL);
    steps_region(false);
    MARK();
    check_step(3, ACTION_SKIP, 0);
    ck_assert_uint_eq(n_asked, 4);
    finish();
}
END_TEST

static unsigned epochs_ended;

static void ignore_call(void)
{
}

static void ignore_moment(const struct train_moment *at)
{
    (void)at;
}

static void count_epoch(const struct train_moment *at)
{
    (void)at;
    epochs_ended++;
}

static const struct listener counts_epochs = {.look = ignore_call,
                                              .step_end = ignore_moment,
                                              .epoch_end = count_epoch,
                                              .window_open = ignore_moment,
                                              .window_close = ignore_moment,
                                              .end = ignore_call};

/* The numbers of torch.profiler.schedule(wait=1, warmup=1, active=3), which ignores epochs. */
static int choose_as_torch(const struct train_time *time, int64_t number, void *unused)
{
    static const enum action cycle[] = {ACTION_SKIP, ACTION_WARMUP, ACTION_ACTIVE, ACTION_ACTIVE,
                                        ACTION_ACTIVE_AND_SAVE};
    (void)time, (void)unused;
    return cycle[number % 5];
}

/* Epochs of three steps end at steps 3 (active), 6 (warmup), 9 (active and save) and 12. The
 * windows continue across them. */
START_TEST(epoch_end_keeps_a_continuing_window)
{
    name_files("{epoch}.{batch}.json");
    writer_listen(&counts_epochs);
    start(false);
    steps_choose_by(choose_as_torch, NULL);
    for (int i = 1; i <= 12; i++) {
        MARK();
        if (i % 3 == 0)
            steps_end_epoch(true);
        ck_assert_int_eq(steps_action(), choose_as_torch(NULL, i, NULL));
    }
    steps_choose_by(NULL, NULL); /* the schedule of the settings has no more windows */
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    ck_assert_uint_eq(session_files("1.5.json"), 1); /* steps 2 to 4 */
    ck_assert_uint_eq(session_files("3.10.json"), 1);
    ck_assert_uint_eq(epochs_ended, 4);
}
END_TEST

/* Records the second epoch only. Its trace must not hold the third epoch's first step. */
static int choose_by_epoch(const struct train_time *time, int64_t number, void *unused)
{
    (void)number, (void)unused;
    return time->epoch == 1 ? ACTION_ACTIVE : ACTION_SKIP;
}

START_TEST(epoch_end_closes_a_window_on_skip)
{
    name_files("{epoch}.{batch}.json");
    writer_listen(&counts_epochs);
    start(false);
    steps_choose_by(choose_by_epoch, NULL);
    for (int i = 1; i <= 9; i++) {
        MARK();
        if (i % 3 == 0)
            steps_end_epoch(true);
        ck_assert_int_eq(steps_action(), i / 3 == 1 ? ACTION_ACTIVE : ACTION_SKIP);
    }
    finish();
    ck_assert_uint_eq(session_files(""), 1);
    ck_assert_uint_eq(session_files("1.6.json"), 1);
    ck_assert_uint_eq(epochs_ended, 3);
}
END_TEST

START_TEST(epoch_end_closes_a_window_in_epoch_scope)
{
    int answer = ACTION_ACTIVE;
    config.schedule_scope = SCHEDULE_EPOCH;
    name_files("{epoch}.{batch}.json");
    start(false);
    steps_choose_by(choose, &answer);
    for (int i = 1; i <= 6; i++) {
        MARK();
        if (i % 3 == 0)
            steps_end_epoch(true);
    }
    steps_choose_by(NULL, NULL);
    finish();
    ck_assert_uint_eq(session_files("0.3.json"), 1);
    ck_assert_uint_eq(session_files("1.6.json"), 1);
}
END_TEST

static pthread_barrier_t meeting;

/* Decides while another thread marks its steps. */
static int choose_slowly(const struct train_time *time, int64_t number, void *unused)
{
    (void)time, (void)unused;
    if (number == 1) {
        pthread_barrier_wait(&meeting);
        pthread_barrier_wait(&meeting);
    }
    return ACTION_SKIP;
}

static void *mark_meanwhile(void *unused)
{
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < 10; i++)
        MARK();
    pthread_barrier_wait(&meeting);
    return unused;
}

START_TEST(counts_marks_made_during_the_callback)
{
    pthread_t other;
    pthread_barrier_init(&meeting, NULL, 2);
    start(false);
    steps_choose_by(choose_slowly, NULL);
    ck_assert_int_eq(pthread_create(&other, NULL, mark_meanwhile, NULL), 0);
    MARK();
    pthread_join(other, NULL);
    ck_assert_int_eq(steps_current(), 11);
    finish();
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

static sigjmp_buf out;

static int choose_to_leave(const struct train_time *time, int64_t number, void *unused)
{
    (void)time, (void)unused;
    if (number == 2)
        siglongjmp(out, 1);
    return number % 2 ? ACTION_ACTIVE : ACTION_SKIP;
}

/* A C++ exception leaves the callback in the same way. The step without an answer keeps the action
 * of the step before it. */
START_TEST(recovers_from_a_jump_out_of_the_callback)
{
    start(false);
    steps_choose_by(choose_to_leave, NULL);
    if (sigsetjmp(out, 0) == 0)
        for (int i = 0; i < 3; i++)
            MARK();
    check_step(2, ACTION_ACTIVE, ALL);
    MARK();
    check_step(3, ACTION_ACTIVE, ALL);
    MARK();
    check_step(4, ACTION_SKIP, GATE_SKIPPED);
    finish();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "was left without an answer"), 1);
}
END_TEST

static __attribute__((noinline)) void mark_deep(int depth)
{
    volatile char room[4096] = {0};
    if (depth > 0)
        mark_deep(depth - 1);
    else
        MARK();
    room[0]++;
}

/* The callback was left, but marks come from deeper stack frames than its own. For a while, they
 * look like marks that the callback makes. */
START_TEST(recovers_when_marks_come_from_deeper_frames)
{
    start(false);
    steps_choose_by(choose_to_leave, NULL);
    if (sigsetjmp(out, 0) == 0)
        for (int i = 0; i < 3; i++)
            MARK();
    for (int i = 0; i < 100; i++)
        mark_deep(16);
    ck_assert_int_gt(steps_current(), 30);
    finish();
}
END_TEST

static int choose_to_end(const struct train_time *time, int64_t number, void *unused)
{
    (void)time;
    if (number == 1)
        pthread_exit(unused);
    return ACTION_ACTIVE;
}

static pid_t ended; /* the thread that ended */

static void *mark_once(void *unused)
{
    ended = (pid_t)syscall(SYS_gettid);
    MARK();
    return unused;
}

/* pthread_join() can return before the kernel has removed the thread. Until then, cprof waits for
 * the thread's answer. */
static void mark_in_a_thread_that_ends(void)
{
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, mark_once, NULL), 0);
    pthread_join(other, NULL);
    while (syscall(SYS_tgkill, getpid(), ended, 0) == 0)
        sched_yield();
}

/* The thread calls pthread_exit(), as if it were cancelled. Marks of other threads still count. */
START_TEST(recovers_from_a_thread_ending_in_the_callback)
{
    start(false);
    steps_choose_by(choose_to_end, NULL);
    mark_in_a_thread_that_ends();
    for (int i = 0; i < 100; i++)
        MARK();
    check_step(101, ACTION_ACTIVE, ALL);
    finish();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "was left without an answer"), 1);
}
END_TEST

static void *mark_65_times(void *unused)
{
    for (int i = 0; i < 65; i++)
        MARK();
    pthread_barrier_wait(&meeting);
    return unused;
}

static int choose_to_be_slow_and_end(const struct train_time *time, int64_t number, void *unused)
{
    (void)time;
    if (number == 1) {
        pthread_t other;
        pthread_barrier_init(&meeting, NULL, 2);
        ck_assert_int_eq(pthread_create(&other, NULL, mark_65_times, NULL), 0);
        pthread_barrier_wait(&meeting);
        pthread_join(other, NULL);
        pthread_exit(unused);
    }
    return ACTION_ACTIVE;
}

/* At most 64 marks wait. They count, and so does the next mark. */
START_TEST(counts_marks_that_waited_for_an_ended_thread)
{
    start(false);
    steps_choose_by(choose_to_be_slow_and_end, NULL);
    mark_in_a_thread_that_ends();
    MARK();
    check_step(1 + 64 + 1, ACTION_ACTIVE, ALL);
    finish();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "more than 64 steps"), 1);
}
END_TEST

/* Ends the program inside the callback. */
static int choose_to_exit(const struct train_time *time, int64_t number, void *unused)
{
    (void)time, (void)unused;
    if (number == 3) {
        finish();
        atomic_store(&cprof_life, LIFE_OVER);
    }
    return ACTION_ACTIVE;
}

START_TEST(saves_the_trace_when_the_callback_exits)
{
    start(false);
    steps_choose_by(choose_to_exit, NULL);
    for (int i = 0; i < 5; i++)
        MARK();
    ck_assert_int_eq(steps_current(), 3);
    ck_assert_uint_eq(session_files(""), 1);
}
END_TEST

Suite *suite_requests(void)
{
    Suite *suite = suite_create("requests");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, session_teardown);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, asks_the_callback_for_each_step);
    tcase_add_test(all, skips_invalid_actions_with_one_line);
    tcase_add_test(all, asks_the_callback_only_inside_regions);
    tcase_add_test(all, epoch_end_keeps_a_continuing_window);
    tcase_add_test(all, epoch_end_closes_a_window_on_skip);
    tcase_add_test(all, epoch_end_closes_a_window_in_epoch_scope);
    tcase_add_test(all, counts_marks_made_during_the_callback);
    tcase_add_test(all, recovers_from_a_jump_out_of_the_callback);
    tcase_add_test(all, recovers_when_marks_come_from_deeper_frames);
    tcase_add_test(all, recovers_from_a_thread_ending_in_the_callback);
    tcase_add_test(all, counts_marks_that_waited_for_an_ended_thread);
    tcase_add_test(all, saves_the_trace_when_the_callback_exits);
    suite_add_tcase(suite, all);
    return suite;
}
