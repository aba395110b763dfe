/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/join.h: records that arrive in another order than their events happened, or
 * whose call never arrives. */
#include "writer/join/join.h"

#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"
#include "writer/join/correlation.h"

static void setup(void)
{
    session_setup();
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
}

/* The trace of the only window, after the program's end. */
static struct trace finish(void)
{
    session_step(ACTION_SKIP);
    session_end();
    return session_trace(2);
}

static void *instantiate(void *unused)
{
    emit_graph_node(thread_log_get(), 200, 100, true);
    return unused;
}

/* The newer thread's ring is drained first, so its nodes arrive before their originals. */
START_TEST(graph_nodes_name_an_operator_of_another_thread)
{
    pthread_t other;
    session_open("captured");
    session_sleep(30);
    emit_graph_node(thread_log_get(), 100, 0, true);
    ck_assert_int_eq(pthread_create(&other, NULL, instantiate, NULL), 0);
    pthread_join(other, NULL);
    session_close("captured");
    struct happened h = fake_gpu_hooked("cudaGraphLaunch", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaGraphLaunch", 7, h, 0, EFFECT_GRAPH);
    struct gpu_record node = fake_gpu_kernel_record("node", 7, h.end);
    node.graph = 2;
    node.node = 200;
    fake_gpu_deliver(&call);
    fake_gpu_deliver(&node);
    struct trace t = finish();
    ck_assert_ptr_nonnull(strstr(t.text, "\"captured in\": \"captured\""));
    trace_free(&t);
}
END_TEST

/* CUPTI reports a query that finds all work done like a wait. Traces do not show such calls, so the
 * call of the wait never arrives. */
START_TEST(queries_take_no_room_from_calls)
{
    session_span("span");
    struct gpu_record query = {.kind = GPU_SYNC, .start = clock_ticks(), .device = 0, .stream = 7};
    query.end = query.start;
    query.sync.event = GPU_NONE;
    query.sync.type = 3;
    for (uint32_t i = 0; i < 60000; i++) {
        query.correlation = 1000 + i;
        fake_gpu_deliver(&query);
    }
    session_sleep(100);
    ck_assert_uint_eq(correlation_held(), 0);
    struct trace t = finish();
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* When the record arrives that completes the others. */
enum when { AT_ONCE, LATER, AFTER_THE_WINDOW_BEFORE };

static const struct row {
    const char *name;
    enum when when;
} rows[] = {
    {"at once", AT_ONCE},
    {"700 ms later", LATER},
    {"when the window before is finished", AFTER_THE_WINDOW_BEFORE},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The first window is finished while the second one waits for the record. */
static void begin(const struct row *row)
{
    session_span("first");
    if (row->when == AFTER_THE_WINDOW_BEFORE)
        session_step(ACTION_ACTIVE_AND_SAVE);
}

static void until(const struct row *row)
{
    if (row->when == LATER)
        session_sleep(700);
    if (row->when == AFTER_THE_WINDOW_BEFORE)
        session_await_trace(2); /* at once: a waiting window is held for 300 ms only */
}

/* The trace of the window that waited. */
static struct trace finish_row(const struct row *row)
{
    session_step(ACTION_SKIP);
    session_end();
    return session_trace(row->when == AFTER_THE_WINDOW_BEFORE ? 3 : 2);
}

static void same(const struct row *row, const char *what, double got, double wanted)
{
    ck_assert_msg(got == wanted, "%s: %s: %.0f, not %.0f", row->name, what, got, wanted);
}

static void check_nothing_lost(const struct row *row, const struct trace *t)
{
    same(row, "losses", trace_number(strstr(t->text, "\"lost\": {"), "total"), 0);
}

/* The driver's record of a call arrives before that of the runtime call around it. test_join.c has
 * the other orders. */
START_TEST(a_runtime_call_replaces_its_driver_call)
{
    const struct row *row = &rows[_i];
    begin(row);
    struct happened outer = {.start = clock_ticks()}, inner = fake_gpu_work();
    outer.end = clock_ticks();
    struct gpu_record driver =
        fake_gpu_call_record("cuLaunchKernel", 4, inner, GPU_DRIVER, EFFECT_KERNEL);
    struct gpu_record runtime =
        fake_gpu_call_record("cudaLaunchKernel", 4, outer, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("k", 4, outer.end);
    fake_gpu_deliver(&driver);
    until(row);
    fake_gpu_deliver(&runtime);
    fake_gpu_deliver(&work);
    struct trace t = finish_row(row);
    same(row, "driver calls", trace_named(&t, 'X', "cuLaunchKernel"), 0);
    same(row, "runtime calls", trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    same(row, "kernels", trace_named(&t, 'X', "k"), 1);
    check_nothing_lost(row, &t);
    trace_free(&t);
}
END_TEST

/* The record of an event arrives after that of the wait, from another buffer. */
START_TEST(a_wait_names_the_recording_of_its_event)
{
    const struct row *row = &rows[_i];
    begin(row);
    struct happened h = fake_gpu_hooked("cudaEventRecord", CAT_CUDA_RUNTIME);
    struct gpu_record event = {.kind = GPU_EVENT, .correlation = 10, .context = 1, .stream = 13};
    struct gpu_record call = fake_gpu_call_record("cudaEventRecord", 10, h, 0, EFFECT_NONE);
    event.event.event = 4;
    h = fake_gpu_hooked("cudaStreamWaitEvent", CAT_CUDA_RUNTIME);
    struct gpu_record waits = fake_gpu_call_record("cudaStreamWaitEvent", 11, h, 0, EFFECT_WAIT);
    struct gpu_record sync = {.kind = GPU_SYNC,
                              .name = "Stream Wait Event",
                              .name_len = 17,
                              .correlation = 11,
                              .start = h.start,
                              .end = h.end,
                              .context = 1,
                              .stream = 7};
    sync.sync.type = 2;
    sync.sync.event = 4;
    fake_gpu_deliver(&call);
    fake_gpu_deliver(&waits);
    fake_gpu_deliver(&sync);
    until(row);
    fake_gpu_deliver(&event);
    struct trace t = finish_row(row);
    const char *line = trace_event(&t, 'X', "cuda_sync\"");
    ck_assert_msg(line != NULL, "%s: no wait", row->name);
    same(row, "stream", trace_number(line, "wait_on_stream"), 13);
    same(row, "recording", trace_number(line, "wait_on_cuda_event_record_corr_id"), 10);
    check_nothing_lost(row, &t);
    trace_free(&t);
}
END_TEST

/* Each thread has its own buffer, and buffers arrive in any order. */
START_TEST(adds_up_driver_memory_in_order_of_time)
{
    const struct row *row = &rows[_i];
    begin(row);
    struct gpu_record r = {.kind = GPU_MEMORY, .start = clock_ticks(), .device = 0};
    if (row->when != AT_ONCE)
        atomic_store(&fake_gpu.kept_from, r.start);
    r.end = r.start;
    r.memory.kind = 3;
    r.memory.tid = (uint32_t)syscall(SYS_gettid);
    struct gpu_record later = r;
    later.start = later.end = clock_ticks();
    r.memory.address = 0x1000, later.memory.address = 0x2000;
    r.memory.bytes = 50, later.memory.bytes = 100;
    fake_gpu_deliver(&later);
    until(row);
    fake_gpu_deliver(&r);
    struct trace t = finish_row(row);
    ck_assert_msg(strstr(t.text, "\"Total Allocated\": 50, \"Bytes\": 50") != NULL,
                  "%s: the earlier allocation does not come first", row->name);
    ck_assert_msg(strstr(t.text, "\"Total Allocated\": 150, \"Bytes\": 100") != NULL,
                  "%s: the later allocation is not added", row->name);
    trace_free(&t);
}
END_TEST

Suite *suite_join_order(void)
{
    Suite *s = suite_create("join_order");
    TCase *c = tcase_create("join_order");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, graph_nodes_name_an_operator_of_another_thread);
    tcase_add_test(c, queries_take_no_room_from_calls);
    tcase_add_loop_test(c, a_runtime_call_replaces_its_driver_call, AFTER_THE_WINDOW_BEFORE, ROWS);
    tcase_add_loop_test(c, a_wait_names_the_recording_of_its_event, 0, ROWS);
    tcase_add_loop_test(c, adds_up_driver_memory_in_order_of_time, 0, ROWS);
    suite_add_tcase(s, c);
    return s;
}
