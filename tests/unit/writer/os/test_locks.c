/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/os/locks.h: lock waits end at their limit, and no lock stays held when the
 * program's signal handler jumps out of a call. */
#include "writer/os/locks.h"

#include <check.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "writer/writer.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *try_lock(void *ms)
{
    return lock_within(&mutex, *(long *)ms) ? ms : NULL;
}

START_TEST(wait_ends_at_its_limit)
{
    pthread_t thread;
    void *taken;
    long ms = 1100;
    ck_assert(lock_within(&mutex, 0));
    uint64_t begun = clock_monotonic_ns();
    ck_assert_int_eq(pthread_create(&thread, NULL, try_lock, &ms), 0);
    ck_assert_int_eq(pthread_join(thread, &taken), 0);
    ck_assert_ptr_null(taken);
    ck_assert_uint_ge(clock_monotonic_ns() - begun, 1000000000);
    pthread_mutex_unlock(&mutex);
    ck_assert(lock_within(&mutex, 0));
    pthread_mutex_unlock(&mutex);
}
END_TEST

/* ---- a handler that leaves by siglongjmp() ---- */

#define SIGNALS 300

static sigjmp_buf out;
static volatile sig_atomic_t inside, n_left;
static pthread_t marker;
static _Atomic bool done;

static void jump_out(int signal)
{
    (void)signal;
    if (inside) {
        inside = 0;
        n_left++;
        siglongjmp(out, 1);
    }
}

static void call_note(void)
{
    writer_note("a note");
}

static void call_gap(void)
{
    writer_gap("a gap", true);
}

static void call_name(void)
{
    writer_name_thread(7, "a name", 6);
}

static void (*const calls[])(void) = {call_note, call_gap, call_name};

static void *send_signals(void *unused)
{
    while (!atomic_load(&done)) {
        pthread_kill(marker, SIGUSR1);
        usleep(200);
    }
    return unused;
}

/* After a handler jumps out of a call the lock is free: later calls return. */
START_TEST(siglongjmp_leaves_no_lock_held)
{
    struct sigaction action = {.sa_handler = jump_out};
    pthread_t sender;
    if (!alloc_is_ours) {
        fprintf(stderr, "locks: siglongjmp_leaves_no_lock_held is skipped under sanitizers and "
                        "valgrind, which do not follow siglongjmp() out of a handler\n");
        return;
    }
    for (unsigned i = 0; i < 20; i++) /* fills the lists, so that later calls allocate nothing */
        calls[_i]();
    marker = pthread_self();
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(pthread_create(&sender, NULL, send_signals, NULL), 0);
    while (n_left < SIGNALS) {
        if (sigsetjmp(out, 1) == 0) {
            inside = 1;
            calls[_i]();
            inside = 0;
        }
    }
    atomic_store(&done, true);
    pthread_join(sender, NULL);
    calls[_i]();
}
END_TEST

Suite *suite_locks(void)
{
    Suite *suite = suite_create("locks");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_test(all, wait_ends_at_its_limit);
    tcase_add_loop_test(all, siglongjmp_leaves_no_lock_held, 0, sizeof calls / sizeof *calls);
    suite_add_tcase(suite, all);
    return suite;
}
