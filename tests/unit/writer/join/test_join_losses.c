/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/join.h: records whose call is never reported, and regions that follow
 * each other closely. */
#include "writer/join/join.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"
#include "writer/join/correlation.h"
#include "writer/sums/lanes.h"

static void setup(void)
{
    session_setup();
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
}

/* A call that its hook reports and CUPTI does not. */
static void hooked_call(const char *name)
{
    struct thread_log *log = thread_log_get();
    int key;
    span_open(log, &key, CAT_CUDA_RUNTIME, name, strlen(name));
    span_close(log, &key);
}

/* ---- no call --------------------------------------------------------------------------------- */

/* CUPTI gives no ids while it records no calls: when it refuses them, and while kinds are
 * switched. */
START_TEST(kernels_without_correlation_stand_in_each_window)
{
    session_start(ACTION_SKIP, false);
    for (unsigned i = 0; i < 3; i++) {
        session_step(ACTION_ACTIVE_AND_SAVE);
        session_span("span");
        fake_gpu_kernel("nobody's", 0);
        fake_gpu_kernel("nobody's", 0);
        session_step(ACTION_SKIP);
        session_sleep(100);
    }
    session_end();
    for (int64_t batch = 2; batch <= 6; batch += 2) {
        struct trace t = session_trace(batch);
        ck_assert_uint_eq(trace_named(&t, 'X', "nobody's"), 2);
        ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 0);
        trace_check_lost(&t, "gpu_without_call", 2);
        trace_free(&t);
    }
}
END_TEST

/* After a pause, an id that is not greater than the newest one belongs to a new count. A
 * record without an id begins none. */
START_TEST(a_wait_without_a_call_begins_no_count_of_ids)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    fake_gpu_launch("kernel", 100);
    session_step(ACTION_SKIP);
    session_await(".json", 1);
    atomic_store(&fake_gpu.since, UINT64_MAX);
    session_sleep(300);
    atomic_store(&fake_gpu.since, 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    struct gpu_record r = {
        .kind = GPU_SYNC, .start = clock_ticks(), .device = 0, .context = 1, .stream = 7};
    r.end = r.start + 1000;
    r.sync.type = 3;
    r.sync.event = GPU_NONE;
    fake_gpu_deliver(&r);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(correlation_extend(101), 101);
}
END_TEST

START_TEST(what_waits_for_a_call_outside_of_windows_does_not_pile_up)
{
    session_start(ACTION_SKIP, false);
    for (uint32_t i = 0; i < 5; i++) {
        session_step(ACTION_WARMUP);
        fake_gpu_kernel("of the warmup", 100 + i); /* called before calls were recorded */
        session_sleep(30);
        session_step(ACTION_ACTIVE_AND_SAVE);
        session_span("span");
        session_step(ACTION_SKIP);
        session_sleep(100);
    }
    session_end();
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "of the warmup"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(correlation_held(), 0); /* the cprof thread has ended */
}
END_TEST

/* CUPTI dropped their calls. The records stay in place and are counted, and none waits for ever. */
START_TEST(what_no_call_comes_for_is_counted_but_for_waits)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    fake_gpu_kernel("kernel", 100);
    struct gpu_record r = {.kind = GPU_MEMORY,
                           .correlation = 101,
                           .start = clock_ticks(),
                           .device = 0,
                           .context = 1,
                           .stream = GPU_NONE};
    r.end = r.start;
    r.memory.address = 4096;
    r.memory.bytes = 123456;
    r.memory.kind = 3; /* device */
    r.memory.tid = (uint32_t)syscall(SYS_gettid);
    fake_gpu_deliver(&r);
    r = (struct gpu_record){.kind = GPU_SYNC,
                            .correlation = 102,
                            .start = clock_ticks(),
                            .device = 0,
                            .context = 1,
                            .stream = 7};
    r.end = r.start + 1000;
    r.sync.type = 3;
    r.sync.event = GPU_NONE;
    fake_gpu_deliver(&r);
    session_sleep(50);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    trace_check_lost(&t, "gpu_without_call", 2);
    trace_check_lost(&t, "total", 2); /* a query that is not shown is no longer waited for */
    ck_assert_uint_eq(trace_named(&t, 'X', "kernel"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', "cuda_sync"), 0);
    ck_assert_ptr_nonnull(strstr(t.text, "123456"));
    trace_free(&t);
    ck_assert_uint_eq(correlation_held(), 0);
}
END_TEST

/* cprof enables kernels before calls, so that each call of a window has its kernel. Another
 * thread's call in between, right before the window, has a kernel but no record. A call that a
 * hook reported is still missed. */
START_TEST(what_was_called_before_the_window_is_not_missed)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    fake_gpu_kernel("called before", 10);
    fake_gpu_launch("launched", 12);
    fake_gpu_kernel("call was dropped", 14);
    fake_gpu_launch("launched", 16);
    session_sleep(50);
    session_step(ACTION_SKIP);
    session_sleep(100);
    session_step(ACTION_ACTIVE_AND_SAVE);
    hooked_call("cudaLaunchKernel");
    fake_gpu_kernel("call was dropped", 20);
    fake_gpu_launch("launched", 22);
    session_sleep(50);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "called before"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "launched"), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "call was dropped"), 1);
    trace_check_lost(&t, "gpu_without_call", 1);
    trace_free(&t);
    t = session_trace(4);
    ck_assert_uint_eq(trace_named(&t, 'X', "call was dropped"), 1);
    ck_assert_int_eq((int)trace_number(t.text, "gpu_without_call"), 1);
    ck_assert_int_eq((int)trace_number(t.text, "call_without_record"), 1);
    trace_free(&t);
    ck_assert_uint_eq(correlation_held(), 0);
}
END_TEST

/* ---- late ------------------------------------------------------------------------------------ */

static void late_span(uint64_t start)
{
    session_open("late")->start = start;
    session_close("late");
}

static void late_launch(uint32_t correlation, uint64_t start)
{
    struct gpu_record r = {.kind = GPU_CALL,
                           .name = "cuLaunchKernel",
                           .name_len = 14,
                           .correlation = correlation,
                           .start = start,
                           .end = start + 100,
                           .device = GPU_NONE,
                           .context = GPU_NONE,
                           .stream = GPU_NONE};
    r.call.tid = (uint32_t)syscall(SYS_gettid);
    r.call.effect = EFFECT_KERNEL;
    fake_gpu_deliver(&r);
    fake_gpu_kernel("of a late call", correlation);
}

/* Records of the last window and the one before. A record that comes after its file was
 * completed is counted in the file that is being written. */
START_TEST(what_comes_after_its_file_is_counted_however_old_it_is)
{
    uint64_t in[2];
    session_start(ACTION_SKIP, false);
    for (unsigned i = 0; i < 2; i++) {
        session_step(ACTION_ACTIVE_AND_SAVE);
        in[i] = clock_ticks();
        session_span("span");
        session_step(ACTION_SKIP);
        session_sleep(100);
    }
    uint64_t between = clock_ticks();
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    late_span(in[0]);
    late_span(in[1]);
    late_span(between); /* belongs to no window */
    late_launch(1, in[0]);
    late_launch(2, in[1]);
    late_launch(3, between);
    session_sleep(100);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(6);
    trace_check_lost(&t, "late", 2 + 2 * 2);
    trace_check_lost(&t, "total", 2 + 2 * 2);
    trace_free(&t);
}
END_TEST

/* A kernel seemed to belong to a call before all windows, but its call was in one. */
START_TEST(the_call_of_what_was_not_missed_is_late_when_it_comes)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    uint64_t in = clock_ticks();
    session_span("span");
    session_step(ACTION_SKIP);
    session_sleep(100);
    session_step(ACTION_ACTIVE_AND_SAVE);
    fake_gpu_kernel("called before", 10);
    fake_gpu_launch("launched", 12);
    session_step(ACTION_SKIP);
    session_sleep(100);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    late_launch(10, in);
    session_sleep(100);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(4);
    ck_assert_uint_eq(trace_named(&t, 'X', "called before"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    t = session_trace(6);
    trace_check_lost(&t, "late", 2);
    trace_free(&t);
}
END_TEST

/* A span that its file shows as unfinished is not late when it ends, even two windows later. */
START_TEST(what_stands_as_unfinished_is_not_late)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_open("long");
    session_span("span");
    for (unsigned i = 0; i < 2; i++) {
        session_step(ACTION_SKIP);
        session_sleep(700); /* longer than spans are waited for */
        session_step(ACTION_ACTIVE_AND_SAVE);
        session_span("span");
    }
    session_close("long");
    session_step(ACTION_SKIP);
    session_end();
    for (int64_t batch = 2; batch <= 6; batch += 2) {
        struct trace t = session_trace(batch);
        ck_assert_uint_eq(trace_named(&t, 'X', "long"), batch == 2);
        trace_check_lost(&t, "total", 0);
        trace_free(&t);
    }
}
END_TEST

/* ---- failing --------------------------------------------------------------------------------- */

/* One window waits for CUPTI and the next one records when a write fails. */
START_TEST(what_is_dropped_with_a_window_is_counted)
{
    char command[sizeof session_folder + 32];
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    session_span("saved");
    session_step(ACTION_SKIP);
    session_sleep(100);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("waits");
    atomic_store(&fake_gpu.kept_back, true);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("recorded");
    session_await(".part", 2);
    snprintf(command, sizeof command, "rm '%s'/t2.json.*.part", session_folder);
    ck_assert_int_eq(system(command), 0);
    /* At least this many: on a busy machine the failing write may come before the first. */
    unsigned dropped = 0;
    for (; !writer_is_off(); dropped++) {
        session_span("dropped");
        session_sleep(1);
    }
    session_end();
    const char *said = capture_stderr();
    ck_assert_uint_eq(capture_lines(said, "recording is off"), 1);
    ck_assert_uint_eq(capture_lines(said, "1 trace, 2 events, at least "), 1);
    const char *lost =
        strstr(said, "1 trace, 2 events, at least ") + strlen("1 trace, 2 events, at least ");
    /* The last one may have begun after recording stopped. */
    ck_assert_uint_ge(strtoul(lost, NULL, 10) + 1, dropped);
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------ */

/* CUPTI reports the context of a wait, and cprof may not know its device. */
START_TEST(a_row_of_no_device_has_no_devices_name)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    fake_gpu_launch("kernel", 1);
    struct gpu_record r = {.kind = GPU_KERNEL,
                           .name = "elsewhere",
                           .name_len = 9,
                           .start = clock_ticks(),
                           .device = GPU_NONE,
                           .context = 9,
                           .stream = 7};
    r.end = r.start + 1000;
    fake_gpu_deliver(&r);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "elsewhere"), 1);
    const char *name = trace_event(&t, 'M', "\"process_name\", \"pid\": 4294967295");
    ck_assert_msg(name && strstr(name, "GPU of no known number"), "%s", name ? name : "no name");
    name = trace_event(&t, 'M', "\"process_labels\", \"pid\": 4294967295");
    ck_assert_msg(name && !strstr(name, "GPU 4294967295"), "%s", name ? name : "no label");
    trace_free(&t);
}
END_TEST

/* All at the same time on one stream: as many rows as allowed, none overlapping, and the rest is
 * counted. */
START_TEST(what_finds_no_row_is_counted)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    struct gpu_record r = {.kind = GPU_KERNEL,
                           .name = "at once",
                           .name_len = 7,
                           .start = clock_ticks(),
                           .device = 0,
                           .context = 1,
                           .stream = 7};
    r.end = r.start + 20000;
    for (unsigned i = 0; i < LANES_OVERLAPS + 3; i++)
        fake_gpu_deliver(&r);
    session_sleep(50);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "at once"), LANES_OVERLAPS);
    ck_assert_ptr_nonnull(strstr(t.text, "\"gpu_rows_full\": 3, "));
    trace_free(&t);
}
END_TEST

/* ---- regions --------------------------------------------------------------------------------- */

static void edge(enum edge_kind kind, bool kept, bool keep)
{
    struct step_edge e = {.kind = kind,
                          .ended = kept ? ACTION_WARMUP : ACTION_SKIP,
                          .begun = kind == EDGE_START ? ACTION_WARMUP : ACTION_SKIP,
                          .kept = kept,
                          .keep = keep};
    writer_edge_begin();
    e.ticks = clock_ticks();
    writer_set_gate(kind == EDGE_START ? SESSION_GATE : 0);
    writer_edge(&e);
}

/* The second region begins while CUPTI still has a buffer of the first. */
START_TEST(regions_that_follow_each_other_have_their_kernels)
{
    session_start(ACTION_SKIP, false);
    edge(EDGE_START, false, true);
    fake_gpu_launch("first", 1);
    session_sleep(40);
    atomic_store(&fake_gpu.kept_back, true);
    edge(EDGE_STOP, true, true);
    session_sleep(40);
    edge(EDGE_START, false, true);
    fake_gpu_launch("second", 2);
    session_sleep(60);
    atomic_store(&fake_gpu.kept_back, false);
    session_sleep(60);
    edge(EDGE_STOP, true, true);
    session_sleep(60);
    edge(EDGE_LAST, false, false);
    writer_finish();
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/t0.json", session_folder);
    struct trace t = trace_read(path);
    ck_assert_uint_eq(trace_named(&t, 'X', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    snprintf(path, sizeof path, "%s/t0-2.json", session_folder);
    t = trace_read(path);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* A persistent kernel holds back its buffer as long as the program runs. */
START_TEST(what_never_ends_holds_its_window_while_nothing_else_comes)
{
    uint64_t second = (uint64_t)clock_ticks_per_second(), now = clock_ticks();
    struct gpu_side g = {.source = &fake_gpu_source, .came = now - 60 * second};
    struct window w = {.closed_at = now - 60 * second, .end = now - 60 * second};
    w.gpu.launches_waiting = 1;
    atomic_store(&fake_gpu.kept_back, true);
    /* no record came since: the kernel may still run */
    ck_assert(!gpu_side_complete(&g, &w, false));
    g.came = now - 40 * second;
    ck_assert(!gpu_side_complete(&g, &w, false)); /* other records came for 20 s */
    g.came = now;
    ck_assert(gpu_side_complete(&g, &w, false));
    w.gpu.last = now - 10 * second; /* a record of the window came since */
    ck_assert(!gpu_side_complete(&g, &w, false));
    atomic_store(&fake_gpu.kept_back, false);
}
END_TEST

Suite *suite_join_losses(void)
{
    Suite *s = suite_create("join_losses");
    TCase *c = tcase_create("join_losses");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, kernels_without_correlation_stand_in_each_window);
    tcase_add_test(c, a_wait_without_a_call_begins_no_count_of_ids);
    tcase_add_test(c, what_waits_for_a_call_outside_of_windows_does_not_pile_up);
    tcase_add_test(c, what_no_call_comes_for_is_counted_but_for_waits);
    tcase_add_test(c, what_was_called_before_the_window_is_not_missed);
    tcase_add_test(c, what_comes_after_its_file_is_counted_however_old_it_is);
    tcase_add_test(c, the_call_of_what_was_not_missed_is_late_when_it_comes);
    tcase_add_test(c, what_stands_as_unfinished_is_not_late);
    tcase_add_test(c, what_is_dropped_with_a_window_is_counted);
    tcase_add_test(c, a_row_of_no_device_has_no_devices_name);
    tcase_add_test(c, what_finds_no_row_is_counted);
    tcase_add_test(c, what_never_ends_holds_its_window_while_nothing_else_comes);
    tcase_add_test(c, regions_that_follow_each_other_have_their_kernels);
    suite_add_tcase(s, c);
    return s;
}
