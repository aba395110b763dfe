/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/join.h: records that arrive in another order than things happened, or
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
START_TEST(graph_nodes_know_who_captured_them_on_another_thread)
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

/* CUPTI reports most queries that find all done like waits. Their calls are not shown, so none
 * arrives. */
START_TEST(queries_take_no_place_from_calls)
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

/* Each thread has its own buffer, and buffers arrive in any order. */
START_TEST(driver_memory_is_added_up_in_the_order_of_time)
{
    session_span("span");
    struct gpu_record r = {.kind = GPU_MEMORY, .start = clock_ticks(), .device = 0};
    r.end = r.start;
    r.memory.kind = 3;
    r.memory.tid = (uint32_t)syscall(SYS_gettid);
    struct gpu_record later = r;
    later.start = later.end = clock_ticks();
    r.memory.address = 0x1000, later.memory.address = 0x2000;
    r.memory.bytes = 50, later.memory.bytes = 100;
    fake_gpu_deliver(&later);
    fake_gpu_deliver(&r);
    struct trace t = finish();
    ck_assert_ptr_nonnull(strstr(t.text, "\"Total Allocated\": 50, \"Bytes\": 50"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"Total Allocated\": 150, \"Bytes\": 100"));
    trace_free(&t);
}
END_TEST

/* The driver's record of a call has arrived, that of the runtime call around it has not. Then
 * the window before theirs is finished. */
START_TEST(a_window_that_is_finished_leaves_the_next_ones_calls_alone)
{
    session_span("first");
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct happened outer = {.start = clock_ticks()}, inner = fake_gpu_work();
    outer.end = clock_ticks();
    struct gpu_record driver =
        fake_gpu_call_record("cuLaunchKernel", 4, inner, GPU_DRIVER, EFFECT_KERNEL);
    struct gpu_record runtime =
        fake_gpu_call_record("cudaLaunchKernel", 4, outer, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("k", 4, outer.end);
    fake_gpu_deliver(&driver);
    session_await_trace(2); /* at once: a waiting window is held for 300 ms only */
    fake_gpu_deliver(&runtime);
    fake_gpu_deliver(&work);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "cuLaunchKernel"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_window_that_is_finished_leaves_the_next_ones_waits_alone)
{
    session_span("first");
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct happened h = fake_gpu_hooked("cudaEventRecord", CAT_CUDA_RUNTIME);
    struct gpu_record event = {.kind = GPU_EVENT, .correlation = 10, .context = 1, .stream = 13};
    struct gpu_record call = fake_gpu_call_record("cudaEventRecord", 10, h, 0, EFFECT_NONE);
    event.event.event = 4;
    h = fake_gpu_hooked("cudaStreamWaitEvent", CAT_CUDA_RUNTIME);
    struct gpu_record waits = fake_gpu_call_record("cudaStreamWaitEvent", 11, h, 0, EFFECT_WAIT);
    struct gpu_record sync = {.kind = GPU_SYNC,
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
    session_await_trace(2);
    fake_gpu_deliver(&event);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(3);
    const char *line = trace_event(&t, 'X', "cuda_sync\"");
    ck_assert_ptr_nonnull(line);
    ck_assert(trace_number(line, "wait_on_stream") == 13);
    ck_assert(trace_number(line, "wait_on_cuda_event_record_corr_id") == 10);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_window_that_is_finished_leaves_the_next_ones_memory_alone)
{
    session_span("first");
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct gpu_record r = {.kind = GPU_MEMORY, .start = clock_ticks()};
    atomic_store(&fake_gpu.kept_from, r.start);
    r.end = r.start;
    r.memory.kind = 3;
    r.memory.tid = (uint32_t)syscall(SYS_gettid);
    struct gpu_record later = r;
    later.start = later.end = clock_ticks();
    r.memory.address = 0x1000, later.memory.address = 0x2000;
    r.memory.bytes = 50, later.memory.bytes = 100;
    fake_gpu_deliver(&later);
    session_await_trace(2);
    fake_gpu_deliver(&r);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(3);
    ck_assert_ptr_nonnull(strstr(t.text, "\"Total Allocated\": 50, \"Bytes\": 50"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"Total Allocated\": 150, \"Bytes\": 100"));
    trace_free(&t);
}
END_TEST

Suite *suite_join_order(void)
{
    Suite *s = suite_create("join_order");
    TCase *c = tcase_create("join_order");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, graph_nodes_know_who_captured_them_on_another_thread);
    tcase_add_test(c, queries_take_no_place_from_calls);
    tcase_add_test(c, driver_memory_is_added_up_in_the_order_of_time);
    tcase_add_test(c, a_window_that_is_finished_leaves_the_next_ones_calls_alone);
    tcase_add_test(c, a_window_that_is_finished_leaves_the_next_ones_waits_alone);
    tcase_add_test(c, a_window_that_is_finished_leaves_the_next_ones_memory_alone);
    suite_add_tcase(s, c);
    return s;
}
