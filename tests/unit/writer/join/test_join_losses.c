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

/* Begins the first window. */
static void begin(void)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
}

/* Ends the window and the program. */
static void finish(void)
{
    session_step(ACTION_SKIP);
    session_end();
}

/* A query that CUPTI reports like a wait. */
static void deliver_query(uint32_t correlation)
{
    struct gpu_record r = {.kind = GPU_SYNC,
                           .correlation = correlation,
                           .start = clock_ticks(),
                           .device = 0,
                           .context = 1,
                           .stream = 7};
    r.end = r.start + 1000;
    r.sync.type = 3;
    r.sync.event = GPU_NONE;
    fake_gpu_deliver(&r);
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

/* CUPTI gives a kernel no id while it records no calls: after it refused to, and while cprof
 * switches activity kinds. */
START_TEST(writes_kernels_without_an_id_in_each_window)
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

/* On the cprof thread, while it collects. */
static void deliver_and_return_buffers(void)
{
    deliver_query(0);
    atomic_store(&fake_gpu.kept_back, false);
}

/* After a pause, an id that is not greater than the newest id begins a new count. A record without
 * an id must not: neither a record of the window that is being finished, nor, with _i, one of the
 * next window. */
START_TEST(a_wait_without_an_id_begins_no_count_of_ids)
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
    if (_i == 0) {
        deliver_query(0);
    } else {
        atomic_store(&fake_gpu.kept_back, true);
        session_step(ACTION_ACTIVE_AND_SAVE);
        atomic_store(&fake_gpu.meanwhile, deliver_and_return_buffers);
        session_await_trace(3);
    }
    finish();
    ck_assert_uint_eq(correlation_extend(101), 101);
}
END_TEST

START_TEST(forgets_records_outside_of_windows)
{
    session_start(ACTION_SKIP, false);
    for (uint32_t i = 0; i < 5; i++) {
        session_step(ACTION_WARMUP);
        fake_gpu_kernel("of the warmup", 100 + i); /* its call came before CUPTI recorded calls */
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

/* CUPTI dropped the calls of these records. They are written and counted, and none is held for
 * ever. */
START_TEST(counts_records_without_a_call_except_waits)
{
    begin();
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
    deliver_query(102);
    session_sleep(50);
    finish();
    struct trace t = session_trace(2);
    trace_check_lost(&t, "gpu_without_call", 2);
    trace_check_lost(&t, "total", 2); /* the query is no loss */
    ck_assert_uint_eq(trace_named(&t, 'X', "kernel"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', "cuda_sync"), 0);
    ck_assert_ptr_nonnull(strstr(t.text, "123456"));
    trace_free(&t);
    ck_assert_uint_eq(correlation_held(), 0);
}
END_TEST

/* cprof enables kernels before calls, so that each call of a window has its kernel. A call that
 * another thread makes in between has a kernel but no record: no loss. If a hook reported a call
 * of the window without a record, the kernel may be its own and counts as a loss. */
START_TEST(ignores_kernels_called_before_the_window)
{
    begin();
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
    finish();
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
    struct happened h = {start, start + 100};
    struct gpu_record r = fake_gpu_call_record("cuLaunchKernel", correlation, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&r);
    fake_gpu_kernel("of a late call", correlation);
}

/* Records of the last window and of the window before it. A record that arrives after its file was
 * completed is counted in the file that is being written. */
START_TEST(counts_late_records_of_any_age)
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
    finish();
    struct trace t = session_trace(6);
    trace_check_lost(&t, "late", 2 + 2 * 2);
    trace_check_lost(&t, "total", 2 + 2 * 2);
    trace_free(&t);
}
END_TEST

/* A kernel seems to be of a call before all windows. Then its call arrives and was in a window. */
START_TEST(counts_the_late_call_of_an_ignored_kernel)
{
    begin();
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
    finish();
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
START_TEST(the_end_of_an_unfinished_span_is_not_late)
{
    begin();
    session_open("long");
    session_span("span");
    for (unsigned i = 0; i < 2; i++) {
        session_step(ACTION_SKIP);
        session_sleep(700); /* longer than cprof waits for the end of a span */
        session_step(ACTION_ACTIVE_AND_SAVE);
        session_span("span");
    }
    session_close("long");
    finish();
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
START_TEST(counts_events_dropped_with_a_window)
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
    /* A lower bound: on a busy machine the write may fail before the first span. */
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
    /* The last span may have begun after recording stopped. */
    ck_assert_uint_ge(strtoul(lost, NULL, 10) + 1, dropped);
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------ */

/* CUPTI reports the context of a wait, and cprof may not know its device. */
START_TEST(names_the_row_of_an_unknown_device)
{
    begin();
    fake_gpu_launch("kernel", 1);
    struct gpu_record r = fake_gpu_kernel_record("elsewhere", 0, clock_ticks());
    r.device = GPU_NONE;
    r.context = 9;
    fake_gpu_deliver(&r);
    finish();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "elsewhere"), 1);
    const char *name = trace_event(&t, 'M', "\"process_name\", \"pid\": 4294967295");
    ck_assert_msg(name && strstr(name, "GPU of no known number"), "%s", name ? name : "no name");
    name = trace_event(&t, 'M', "\"process_labels\", \"pid\": 4294967295");
    ck_assert_msg(name && !strstr(name, "GPU 4294967295"), "%s", name ? name : "no label");
    trace_free(&t);
}
END_TEST

/* Kernels of the same time on one stream need a row each. Kernels above the limit are counted. */
START_TEST(counts_kernels_without_a_row)
{
    begin();
    session_span("span");
    struct gpu_record r = fake_gpu_kernel_record("at once", 0, clock_ticks());
    for (unsigned i = 0; i < LANES_OVERLAPS + 3; i++)
        fake_gpu_deliver(&r);
    session_sleep(50);
    finish();
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

static struct trace region_trace(const char *name)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", session_folder, name);
    return trace_read(path);
}

/* The second region begins while CUPTI still has a buffer of the first. */
START_TEST(consecutive_regions_have_their_own_kernels)
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
    struct trace t = region_trace("t0.json");
    ck_assert_uint_eq(trace_named(&t, 'X', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    t = region_trace("t0-2.json");
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* CUPTI does not return the buffer of a kernel that runs as long as the program. */
START_TEST(a_running_kernel_holds_its_window)
{
    uint64_t second = (uint64_t)clock_ticks_per_second(), now = clock_ticks();
    struct gpu_side g = {.source = &fake_gpu_source, .came = now - 60 * second};
    struct window w = {.closed_at = now - 60 * second, .end = now - 60 * second};
    w.gpu.launches_waiting = 1;
    atomic_store(&fake_gpu.kept_back, true);
    /* no record arrived since: the kernel may still run */
    ck_assert(!gpu_side_complete(&g, &w, false));
    g.came = now - 40 * second;
    ck_assert(!gpu_side_complete(&g, &w, false)); /* other records arrived for 20 s */
    g.came = now;
    ck_assert(gpu_side_complete(&g, &w, false));
    w.gpu.last = now - 10 * second; /* a record of the window arrived */
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
    tcase_add_test(c, writes_kernels_without_an_id_in_each_window);
    tcase_add_loop_test(c, a_wait_without_an_id_begins_no_count_of_ids, 0, 2);
    tcase_add_test(c, forgets_records_outside_of_windows);
    tcase_add_test(c, counts_records_without_a_call_except_waits);
    tcase_add_test(c, ignores_kernels_called_before_the_window);
    tcase_add_test(c, counts_late_records_of_any_age);
    tcase_add_test(c, counts_the_late_call_of_an_ignored_kernel);
    tcase_add_test(c, the_end_of_an_unfinished_span_is_not_late);
    tcase_add_test(c, counts_events_dropped_with_a_window);
    tcase_add_test(c, names_the_row_of_an_unknown_device);
    tcase_add_test(c, counts_kernels_without_a_row);
    tcase_add_test(c, a_running_kernel_holds_its_window);
    tcase_add_test(c, consecutive_regions_have_their_own_kernels);
    suite_add_tcase(s, c);
    return s;
}
