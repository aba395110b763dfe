/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/join.h and writer/gpu_side.h: a complete recording with the real cprof
 * thread. A simulated GPU side delivers records when the test tells it to. */
#include "writer/join/join.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

#include "tests/support/capture.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"

/* ---- what the tests share -------------------------------------------------------------------- */

static double arg_of(const struct trace *t, const char *event, const char *key)
{
    return trace_number(trace_event(t, 'X', event), key);
}

static void setup(void)
{
    session_setup();
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
}

static void begin(void)
{
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

/* ---- calls and kernels ----------------------------------------------------------------------- */

START_TEST(a_launch_is_joined_to_its_operator_and_kernel)
{
    begin();
    session_open("forward");
    fake_gpu_launch("kernel_one", 5);
    session_close("forward");
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "kernel_one"), 1);
    double op = arg_of(&t, "\"forward\"", "External id");
    ck_assert(op > 0);
    ck_assert(arg_of(&t, "cudaLaunchKernel", "External id") == op);
    ck_assert(arg_of(&t, "kernel_one", "External id") == op);
    ck_assert(arg_of(&t, "cudaLaunchKernel", "correlation") == 5);
    ck_assert(arg_of(&t, "kernel_one", "correlation") == 5);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 1);
    trace_check_lost(&t, "total", 0);
    ck_assert_ptr_nonnull(strstr(t.text, "\"deviceProperties\": [{\"id\": 0"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"cupti_version\": 130000"));
    trace_free(&t);
}
END_TEST

START_TEST(order_of_delivery_does_not_matter)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record work = fake_gpu_kernel_record("early", 9, h.end + 10);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 9, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&work);
    session_sleep(50);
    fake_gpu_deliver(&call);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "early"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_call_without_a_hook_finds_its_operator_by_time)
{
    begin();
    session_open("outer");
    session_span("before");
    session_open("operator");
    struct happened h = fake_gpu_work();
    session_close("operator");
    session_span("after");
    session_close("outer");
    struct gpu_record call =
        fake_gpu_call_record("cuLaunchKernel", 3, h, GPU_DRIVER, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("unhooked", 3, h.end + 10);
    fake_gpu_deliver(&call);
    fake_gpu_deliver(&work);
    struct trace t = finish();
    double op = arg_of(&t, "\"operator\"", "External id");
    ck_assert(op > 0 && arg_of(&t, "cuLaunchKernel", "External id") == op);
    ck_assert(arg_of(&t, "unhooked", "External id") == op);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_call_without_a_hook_finds_an_operator_that_is_still_open)
{
    begin();
    session_open("operator");
    session_span("before");
    struct happened h = fake_gpu_work();
    struct gpu_record call = fake_gpu_call_record("cuLaunchKernel", 3, h, GPU_DRIVER, EFFECT_NONE);
    fake_gpu_deliver(&call);
    session_sleep(1000);
    session_close("operator");
    struct trace t = finish();
    double op = arg_of(&t, "\"operator\"", "External id");
    ck_assert(op > 0 && arg_of(&t, "cuLaunchKernel", "External id") == op);
    trace_free(&t);
}
END_TEST

START_TEST(a_driver_call_inside_a_runtime_call_has_no_row)
{
    begin();
    struct happened inner = {0}, outer;
    outer.start = clock_ticks();
    inner = fake_gpu_work();
    outer.end = clock_ticks();
    struct gpu_record driver =
        fake_gpu_call_record("cuLaunchKernel", 4, inner, GPU_DRIVER, EFFECT_KERNEL);
    struct gpu_record runtime =
        fake_gpu_call_record("cudaLaunchKernel", 4, outer, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("k", 4, outer.end);
    if (_i & 1)
        fake_gpu_deliver(&runtime);
    fake_gpu_deliver(&driver);
    fake_gpu_deliver(&work);
    if (_i & 2)
        session_sleep(30);
    if (!(_i & 1))
        fake_gpu_deliver(&runtime);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "cuLaunchKernel"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_kernel_belongs_to_the_window_of_its_launch)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    atomic_store(&fake_gpu.kept_back, true);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    session_step(ACTION_SKIP);
    session_await(".part", 1);
    session_sleep(400);
    ck_assert_uint_eq(session_files("t2.json"), 0); /* not finished yet */
    ck_assert_uint_eq(session_files(".part"), 1);
    struct gpu_record work = fake_gpu_kernel_record("outlives", 1, clock_ticks());
    fake_gpu_deliver(&work);
    atomic_store(&fake_gpu.kept_back, false);
    session_await(".part", 0);
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "outlives"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    session_end();
}
END_TEST

START_TEST(later_windows_do_not_wait_for_earlier_ones)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    session_step(ACTION_ACTIVE_AND_SAVE);
    fake_gpu_launch("second", 2);
    session_step(ACTION_SKIP);
    session_sleep(500);
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    trace_free(&t);
    struct gpu_record work = fake_gpu_kernel_record("first", 1, clock_ticks());
    fake_gpu_deliver(&work);
    session_end();
    t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(what_was_launched_outside_is_nobodys)
{
    session_start(ACTION_SKIP, false);
    struct happened h = fake_gpu_work();
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    session_step(ACTION_ACTIVE_AND_SAVE);
    fake_gpu_launch("inside", 2);
    fake_gpu_deliver(&call);
    struct gpu_record work = fake_gpu_kernel_record("outside", 1, clock_ticks());
    fake_gpu_deliver(&work);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "outside"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(correlations_wrap)
{
    begin();
    fake_gpu_launch("k", UINT32_MAX - 1);
    fake_gpu_launch("k", UINT32_MAX);
    fake_gpu_launch("k", 1);
    fake_gpu_launch("k", 2);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 4);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 4);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* ---- what goes wrong ------------------------------------------------------------------------- */

START_TEST(a_hooked_call_that_cupti_does_not_report_stands_alone)
{
    begin();
    fake_gpu_hooked("cudaMalloc", CAT_CUDA_RUNTIME);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaMalloc"), 1);
    ck_assert(arg_of(&t, "cudaMalloc", "correlation") == -1);
    trace_check_lost(&t, "call_without_record", 1);
    trace_free(&t);
}
END_TEST

START_TEST(without_cupti_calls_are_written_at_once)
{
    atomic_store(&fake_gpu.since, UINT64_MAX);
    begin();
    fake_gpu_hooked("cudaMalloc", CAT_CUDA_RUNTIME);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaMalloc"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_launch_without_kernel_is_counted)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g"), 0);
    trace_check_lost(&t, "launch_without_kernel", 1);
    trace_free(&t);
}
END_TEST

START_TEST(a_failed_launch_waits_for_nothing)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call =
        fake_gpu_call_record("cudaLaunchKernel", 1, h, GPU_FAILED, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    struct trace t = finish();
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(a_kernel_without_call_is_written_and_counted)
{
    begin();
    struct gpu_record work = fake_gpu_kernel_record("orphan", 77, clock_ticks());
    session_span("span");
    fake_gpu_deliver(&work);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "orphan"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 0);
    trace_check_lost(&t, "gpu_without_call", 1);
    trace_free(&t);
}
END_TEST

START_TEST(a_kernel_that_comes_after_its_file_is_counted_as_late)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaMemcpyAsync", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaMemcpyAsync", 1, h, 0, EFFECT_COPY);
    fake_gpu_deliver(&call);
    session_step(ACTION_SKIP);
    session_sleep(300);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    struct gpu_record work = fake_gpu_kernel_record("late", 1, clock_ticks());
    fake_gpu_deliver(&work);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(4);
    trace_check_lost(&t, "late", 1);
    trace_free(&t);
}
END_TEST

START_TEST(faults_are_counted)
{
    begin();
    session_span("span");
    fake_gpu_report((struct gpu_faults){.dropped = 3, .untimed = 4, .unnamed = 5});
    struct trace t = finish();
    const char *lost = strstr(t.text, "\"lost\"");
    ck_assert(trace_number(lost, "gpu_dropped") == 3 && trace_number(lost, "gpu_no_time") == 4);
    ck_assert(trace_number(lost, "names_full") == 5);
    trace_free(&t);
}
END_TEST

START_TEST(a_kernel_that_seems_to_begin_before_its_launch_has_no_arrow)
{
    begin();
    session_span("span");
    uint64_t early = clock_ticks();
    session_sleep(30);
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("k", 1, early);
    fake_gpu_deliver(&call);
    fake_gpu_deliver(&work);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 1);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g") + trace_count(&t, 'f', "ac2g"), 0);
    ck_assert(trace_number(t.text, "before_call") == 1);
    trace_free(&t);
}
END_TEST

/* ---- the end of the program ------------------------------------------------------------------ */

START_TEST(at_exit_a_running_kernel_is_waited_for)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    atomic_store(&fake_gpu.kept_back, true);
    session_options.exit_deadline_ms = 500; /* irrelevant, because all records were delivered */
    session_step(ACTION_SKIP);
    struct gpu_record work = fake_gpu_kernel_record("k", 1, clock_ticks());
    fake_gpu_deliver(&work);
    atomic_store(&fake_gpu.kept_back, false);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 1);
    ck_assert_uint_eq(fake_gpu.forced, 0);
    trace_free(&t);
}
END_TEST

START_TEST(at_the_deadline_what_is_there_is_written)
{
    session_options.exit_deadline_ms = 1000;
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    atomic_store(&fake_gpu.kept_back, true); /* never released */
    struct trace t = finish();
    ck_assert_uint_eq(fake_gpu.forced, 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    trace_check_lost(&t, "launch_without_kernel", 1);
    trace_free(&t);
}
END_TEST

START_TEST(step_0_of_a_program_without_marks)
{
    session_start(ACTION_WARMUP, true);
    session_open("operator");
    fake_gpu_launch("kept", 1);
    session_close("operator");
    session_sleep(50);
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "kept"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert(arg_of(&t, "kept", "External id") == arg_of(&t, "\"operator\"", "External id"));
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(what_is_held_is_joined_whatever_came_first)
{
    session_start(ACTION_WARMUP, true);
    session_open("operator");
    struct thread_log *log = thread_log_get();
    int key;
    span_open(log, &key, CAT_CUDA_RUNTIME, "cudaLaunchKernel", 16);
    struct happened h = fake_gpu_work();
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call); /* held while the hooked call has not ended */
    session_sleep(60);
    span_close(log, &key);
    session_close("operator");
    struct gpu_record work = fake_gpu_kernel_record("kept", 1, clock_ticks());
    fake_gpu_deliver(&work);
    session_sleep(60);
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    ck_assert(arg_of(&t, "kept", "External id") == arg_of(&t, "\"operator\"", "External id"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(step_0_of_a_program_with_marks_is_forgotten)
{
    session_start(ACTION_WARMUP, true);
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
    session_sleep(50);
    session_step(ACTION_ACTIVE_AND_SAVE);
    fake_gpu_launch("wanted", 2);
    struct gpu_record work = fake_gpu_kernel_record("of step 0", 1, clock_ticks());
    fake_gpu_deliver(&work);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "wanted"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "of step 0"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Waits until the cprof thread has had the processor. */
static void until_wanted(enum gpu_want want)
{
    for (int ms = 0; ms < 5000 && atomic_load(&fake_gpu.wants[want]) == 0; ms += 5)
        session_sleep(5);
    ck_assert_uint_gt(atomic_load(&fake_gpu.wants[want]), 0);
}

START_TEST(kinds_are_off_between_windows)
{
    session_start(ACTION_SKIP, false);
    session_sleep(50);
    ck_assert_uint_eq(atomic_load(&fake_gpu.wants[GPU_WANT_ALL]) +
                          atomic_load(&fake_gpu.wants[GPU_WANT_SOON]),
                      0);
    session_step(ACTION_WARMUP);
    until_wanted(GPU_WANT_ALL);
    ck_assert_uint_eq(atomic_load(&fake_gpu.wants[GPU_WANT_SOON]), 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    until_wanted(GPU_WANT_SOON);
    session_step(ACTION_SKIP);
    session_sleep(300);
    atomic_store(&fake_gpu.wants[GPU_WANT_SOON], 0);
    atomic_store(&fake_gpu.wants[GPU_WANT_NOTHING], 0);
    session_step(ACTION_WARMUP);
    session_sleep(30);
    session_step(ACTION_SKIP);
    until_wanted(GPU_WANT_NOTHING);
    session_end();
}
END_TEST

/* ---- graphs, ranges, waits, memory ----------------------------------------------------------- */

START_TEST(graph_nodes_know_who_captured_them)
{
    begin();
    session_open("capturing");
    struct thread_log *log = thread_log_get();
    int key;
    span_open(log, &key, CAT_CUDA_RUNTIME, "cudaLaunchKernel", 16);
    struct happened h = fake_gpu_work();
    emit_graph_node(log, 100, 0, true);
    span_close(log, &key);
    session_close("capturing");
    emit_graph_node(log, 200, 100, true); /* instantiated */
    struct gpu_record captured = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&captured);
    h = fake_gpu_hooked("cudaGraphLaunch", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaGraphLaunch", 2, h, 0, EFFECT_GRAPH);
    fake_gpu_deliver(&call);
    for (unsigned i = 0; i < 3; i++) {
        struct gpu_record work = fake_gpu_kernel_record("node", 2, h.end + i * 30000);
        work.graph = 9;
        work.node = 200;
        fake_gpu_deliver(&work);
    }
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "node"), 3);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 3);
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'X', "\"node\""), "capturing"));
    trace_check_lost(&t, "total", 0); /* the captured launch is not waited for */
    trace_free(&t);
}
END_TEST

/* CUPTI before 13.1 Update 1 reports graphs of later windows like this: with the id of an
 * unrelated launch. */
START_TEST(a_node_with_the_id_of_a_plain_launch)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    struct gpu_record node = fake_gpu_kernel_record("node", 1, h.end + 1000);
    struct gpu_record own = fake_gpu_kernel_record("own", 1, h.end + 30000);
    node.graph = 9;
    node.node = 200;
    fake_gpu_deliver(&node);
    fake_gpu_deliver(&call);
    fake_gpu_deliver(&own);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "node"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "own"), 1);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 1);
    ck_assert_ptr_null(strstr(trace_event(&t, 'X', "\"node\""), "External id"));
    trace_check_lost(&t, "gpu_without_call", 1);
    trace_check_lost(&t, "total", 1);
    trace_free(&t);
}
END_TEST

START_TEST(launches_of_graphs_that_bring_nothing_are_counted)
{
    begin();
    for (unsigned i = 1; i <= 3; i++) {
        struct happened h = fake_gpu_hooked("cudaGraphLaunch", CAT_CUDA_RUNTIME);
        struct gpu_record call = fake_gpu_call_record("cudaGraphLaunch", i, h, 0, EFFECT_GRAPH);
        struct gpu_record work = fake_gpu_kernel_record("node", i, h.end + 1000);
        work.graph = 9;
        fake_gpu_deliver(&call);
        if (i == 2)
            fake_gpu_deliver(&work);
    }
    struct trace t = finish();
    ck_assert(trace_number(t.text, "graph_launches") == 3);
    ck_assert(trace_number(t.text, "graph_launches_without_work") == 2);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(ranges_stand_where_their_kernels_ran)
{
    begin();
    session_open("outer");
    fake_gpu_launch("first", 1);
    session_open("ProfilerStep#5");
    fake_gpu_launch("second", 2);
    session_close("ProfilerStep#5");
    fake_gpu_launch("third", 3);
    session_close("outer");
    struct trace t = finish();
    ck_assert_uint_eq(trace_count(&t, 'X', "gpu_user_annotation"), 2);
    const char *line =
        trace_event(&t, 'X', "\"cat\": \"gpu_user_annotation\", \"name\": \"outer\"");
    double outer = trace_number(line, "ts"), outer_end = outer + trace_number(line, "dur");
    ck_assert(outer == arg_of(&t, "\"first\"", "ts"));
    line = trace_event(&t, 'X', "\"third\"");
    double third_end = trace_number(line, "ts") + trace_number(line, "dur");
    ck_assert(outer_end - third_end < 0.0015 && third_end - outer_end < 0.0015);
    line = trace_event(&t, 'X', "\"gpu_user_annotation\", \"name\": \"torch.profiler step 5\"");
    ck_assert(trace_number(line, "ts") == arg_of(&t, "\"second\"", "ts"));
    trace_free(&t);
}
END_TEST

START_TEST(waits_name_the_recording)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaEventRecord", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaEventRecord", 10, h, 0, EFFECT_NONE);
    fake_gpu_deliver(&call);
    struct gpu_record event = {
        .kind = GPU_EVENT, .correlation = 10, .context = 1, .device = 0, .stream = 13};
    event.event.event = 4;
    h = fake_gpu_hooked("cudaStreamWaitEvent", CAT_CUDA_RUNTIME);
    struct gpu_record waits = fake_gpu_call_record("cudaStreamWaitEvent", 11, h, 0, EFFECT_WAIT);
    fake_gpu_deliver(&waits);
    struct gpu_record sync = {.kind = GPU_SYNC,
                              .name = "Stream Wait Event",
                              .name_len = 17,
                              .correlation = 11,
                              .start = h.start,
                              .end = h.end,
                              .device = 0,
                              .context = 1,
                              .stream = 7};
    sync.sync.type = 2;
    sync.sync.event = 4;
    fake_gpu_deliver(&sync);
    if (_i)
        session_sleep(700);
    fake_gpu_deliver(&event); /* after the wait, from another buffer */
    struct trace t = finish();
    const char *line = trace_event(&t, 'X', "cuda_sync\"");
    ck_assert_ptr_nonnull(line);
    ck_assert(trace_number(line, "wait_on_stream") == 13);
    ck_assert(trace_number(line, "wait_on_cuda_event_record_corr_id") == 10);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(driver_memory_stands_on_the_caller)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaMalloc", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaMalloc", 1, h, 0, EFFECT_NONE);
    struct gpu_record memory = {.kind = GPU_MEMORY,
                                .correlation = 1,
                                .start = h.start,
                                .end = h.start,
                                .device = 0,
                                .context = 1,
                                .stream = GPU_NONE};
    memory.memory.address = 0x7000;
    memory.memory.bytes = 4096;
    memory.memory.kind = 3;
    fake_gpu_deliver(&memory);
    fake_gpu_deliver(&call);
    struct trace t = finish();
    ck_assert_uint_eq(trace_count(&t, 'C', "4096"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static void *many_launches(void *from)
{
    uint32_t first = (uint32_t)(uintptr_t)from;
    for (uint32_t i = 0; i < 200; i++) {
        session_open("operator");
        fake_gpu_launch("k", first + i);
        session_close("operator");
    }
    return NULL;
}

START_TEST(many_threads)
{
    begin();
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, many_launches, (void *)(1 + i * 1000)),
                         0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 800);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 800);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 800);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static const char range[] = "gloo:all_reduce";

static void *end_range(void *unused)
{
    span_ended_elsewhere(range);
    return unused;
}

/* The range is reported when its thread opens the next one, after spans that ended later. Spans
 * are searched by their ends. */
START_TEST(a_range_that_ends_on_another_thread_is_in_nobodys_way)
{
    enum { BEFORE = 8 };
    struct happened h[BEFORE + 20];
    pthread_t other;
    begin();
    struct thread_log *log = thread_log_get();
    span_add_flags(span_open(log, range, CAT_USER_ANNOTATION, range, sizeof range - 1), REC_LOOSE);
    pthread_create(&other, NULL, end_range, NULL);
    pthread_join(other, NULL);
    session_open("operator");
    for (int i = 0; i < BEFORE; i++)
        h[i] = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    session_close("operator");
    spans_take_ended(log);
    session_open("operator");
    for (int i = BEFORE; i < BEFORE + _i; i++)
        h[i] = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    session_close("operator");
    session_sleep(50); /* usually rings are drained before CUPTI's records arrive */
    for (int i = 0; i < BEFORE + _i; i++) {
        struct gpu_record call =
            fake_gpu_call_record("cudaLaunchKernel", 10 + (uint32_t)i, h[i], 0, EFFECT_KERNEL);
        struct gpu_record work =
            fake_gpu_kernel_record("a_kernel", 10 + (uint32_t)i, h[i].end + 10);
        fake_gpu_deliver(&call);
        fake_gpu_deliver(&work);
    }
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), BEFORE + _i);
    ck_assert_uint_eq(trace_named(&t, 'X', "a_kernel"), BEFORE + _i);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

Suite *suite_join(void)
{
    Suite *s = suite_create("join");
    TCase *c = tcase_create("join");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_launch_is_joined_to_its_operator_and_kernel);
    tcase_add_test(c, order_of_delivery_does_not_matter);
    tcase_add_test(c, a_call_without_a_hook_finds_its_operator_by_time);
    tcase_add_test(c, a_call_without_a_hook_finds_an_operator_that_is_still_open);
    tcase_add_loop_test(c, a_driver_call_inside_a_runtime_call_has_no_row, 0, 4);
    tcase_add_test(c, a_kernel_belongs_to_the_window_of_its_launch);
    tcase_add_test(c, later_windows_do_not_wait_for_earlier_ones);
    tcase_add_test(c, what_was_launched_outside_is_nobodys);
    tcase_add_test(c, correlations_wrap);
    tcase_add_test(c, a_hooked_call_that_cupti_does_not_report_stands_alone);
    tcase_add_test(c, without_cupti_calls_are_written_at_once);
    tcase_add_test(c, a_launch_without_kernel_is_counted);
    tcase_add_test(c, a_failed_launch_waits_for_nothing);
    tcase_add_test(c, a_kernel_without_call_is_written_and_counted);
    tcase_add_test(c, a_kernel_that_comes_after_its_file_is_counted_as_late);
    tcase_add_test(c, faults_are_counted);
    tcase_add_test(c, a_kernel_that_seems_to_begin_before_its_launch_has_no_arrow);
    tcase_add_test(c, at_exit_a_running_kernel_is_waited_for);
    tcase_add_test(c, at_the_deadline_what_is_there_is_written);
    tcase_add_test(c, step_0_of_a_program_without_marks);
    tcase_add_test(c, what_is_held_is_joined_whatever_came_first);
    tcase_add_test(c, step_0_of_a_program_with_marks_is_forgotten);
    tcase_add_test(c, kinds_are_off_between_windows);
    tcase_add_test(c, graph_nodes_know_who_captured_them);
    tcase_add_test(c, a_node_with_the_id_of_a_plain_launch);
    tcase_add_test(c, launches_of_graphs_that_bring_nothing_are_counted);
    tcase_add_test(c, ranges_stand_where_their_kernels_ran);
    tcase_add_loop_test(c, waits_name_the_recording, 0, 2);
    tcase_add_test(c, driver_memory_stands_on_the_caller);
    tcase_add_test(c, many_threads);
    tcase_add_loop_test(c, a_range_that_ends_on_another_thread_is_in_nobodys_way, 0, 20);
    suite_add_tcase(s, c);
    return s;
}
