/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/steps/steps.h: schedules of the program's, which may take long, be left, or end
 * their thread. */
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

/* Every third step from the second on; marks a step itself, which does not count. */
static int choose(const struct train_time *time, int64_t number, void *answer)
{
    asked[n_asked] = number;
    asked_at[n_asked++] = *time;
    MARK();
    return answer ? *(int *)answer : number % 3 == 1 ? ACTION_ACTIVE_AND_SAVE : ACTION_SKIP;
}

START_TEST(a_schedule_of_the_programs)
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

START_TEST(what_is_no_action_is_skipped)
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

START_TEST(a_schedule_decides_inside_regions_only)
{
    start(false);
    steps_choose_by(choose, NULL);
    MARK();
    steps_region(true);
    ck_assert_int_eq(asked[2], 0); /* counted from the region's beginning */
    MARK();
    check_step(2, ACTION_ACTIVE_AND_SAVE, ALL);
    steps_region(false);
    MARK();
    check_step(3, ACTION_SKIP, 0);
    ck_assert_uint_eq(n_asked, 4);
    finish();
}
END_TEST

static unsigned epochs_told;

static void look(void)
{
}

static void pass_moment(const struct train_moment *at)
{
    (void)at;
}

static void count_epoch(const struct train_moment *at)
{
    (void)at;
    epochs_told++;
}

static const struct listener counts_epochs = {.look = look,
                                              .step_end = pass_moment,
                                              .epoch_end = count_epoch,
                                              .window_open = pass_moment,
                                              .window_close = pass_moment,
                                              .end = look};

/* The numbers of torch.profiler.schedule(wait=1, warmup=1, active=3), which knows nothing of
 * epochs. */
static int choose_as_torch(const struct train_time *time, int64_t number, void *unused)
{
    static const enum action cycle[] = {ACTION_SKIP, ACTION_WARMUP, ACTION_ACTIVE, ACTION_ACTIVE,
                                        ACTION_ACTIVE_AND_SAVE};
    (void)time, (void)unused;
    return cycle[number % 5];
}

/* Epochs of three steps end in steps 3 (active), 6 (warmup), 9 (active and save) and 12: each
 * window goes on. */
START_TEST(an_epoch_ends_no_window_that_the_schedule_wants_to_go_on)
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
    steps_choose_by(NULL, NULL); /* the settings' schedule is over by now */
    finish();
    ck_assert_uint_eq(session_files(""), 2);
    ck_assert_uint_eq(session_files("1.5.json"), 1); /* steps 2 to 4 */
    ck_assert_uint_eq(session_files("3.10.json"), 1);
    ck_assert_uint_eq(epochs_told, 4);
}
END_TEST

/* Only the second epoch is wanted, and of it a trace without the next one's first step. */
static int choose_by_epoch(const struct train_time *time, int64_t number, void *unused)
{
    (void)number, (void)unused;
    return time->epoch == 1 ? ACTION_ACTIVE : ACTION_SKIP;
}

START_TEST(an_epoch_ends_the_window_where_the_schedule_says_so)
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
    ck_assert_uint_eq(epochs_told, 3);
}
END_TEST

START_TEST(an_epoch_ends_the_window_of_a_schedule_that_counts_by_epochs)
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

START_TEST(marks_that_come_while_it_decides_are_counted)
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

/* An exception of another language does the same. The step that it was about goes on as the one
 * before. */
START_TEST(a_schedule_that_is_left)
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

/* Marks that come from deeper in the stack than the schedule was called from look as if it made
 * them, for a while. */
START_TEST(a_schedule_that_is_left_for_good)
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

/* pthread_join() comes back before the kernel has let go of the thread, and until then its answer
 * is waited for. */
static void mark_in_a_thread_that_ends(void)
{
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, mark_once, NULL), 0);
    pthread_join(other, NULL);
    while (syscall(SYS_tgkill, getpid(), ended, 0) == 0)
        sched_yield();
}

/* It is cancelled there, or ends by itself: other threads' marks count. */
START_TEST(a_thread_that_ends_in_the_schedule)
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

/* As many marks wait as may; they count, and so does the next one. */
START_TEST(what_waited_for_a_thread_that_ended_is_counted)
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

/* A program that stops in its schedule still ends well. */
static int choose_the_end(const struct train_time *time, int64_t number, void *unused)
{
    (void)time, (void)unused;
    if (number == 3) {
        finish();
        atomic_store(&cprof_life, LIFE_OVER);
    }
    return ACTION_ACTIVE;
}

START_TEST(an_exit_in_the_schedule)
{
    start(false);
    steps_choose_by(choose_the_end, NULL);
    for (int i = 0; i < 5; i++)
        MARK();
    ck_assert_int_eq(steps_current(), 3);
    ck_assert_uint_eq(session_files(""), 1);
}
END_TEST

Suite *suite_choosers(void)
{
    Suite *suite = suite_create("choosers");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, session_teardown);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, a_schedule_of_the_programs);
    tcase_add_test(all, what_is_no_action_is_skipped);
    tcase_add_test(all, a_schedule_decides_inside_regions_only);
    tcase_add_test(all, an_epoch_ends_no_window_that_the_schedule_wants_to_go_on);
    tcase_add_test(all, an_epoch_ends_the_window_where_the_schedule_says_so);
    tcase_add_test(all, an_epoch_ends_the_window_of_a_schedule_that_counts_by_epochs);
    tcase_add_test(all, marks_that_come_while_it_decides_are_counted);
    tcase_add_test(all, a_schedule_that_is_left);
    tcase_add_test(all, a_schedule_that_is_left_for_good);
    tcase_add_test(all, a_thread_that_ends_in_the_schedule);
    tcase_add_test(all, what_waited_for_a_thread_that_ended_is_counted);
    tcase_add_test(all, an_exit_in_the_schedule);
    suite_add_tcase(suite, all);
    return suite;
}
