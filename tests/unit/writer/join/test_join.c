/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/join.h and writer/gpu_side.h: complete recordings with the real cprof thread
 * and a simulated GPU side, which delivers a record when the test says so. */
#include "writer/join/join.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
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

/* A launch with id 1, reported by its hook and by CUPTI. The record of its kernel is missing. */
static void hooked_launch(void)
{
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&call);
}

/* ---- one launch ------------------------------------------------------------------------------ */

#define ID 5 /* CUPTI's correlation of the launch */

/* The steps of a row, a letter each:
 *   |    the window begins
 *   ( )  an operator begins, ends
 *   { }  a span around all
 *   s    a span
 *   [ ]  a hooked call begins, ends
 *   w    a call without a hook; a driver call lies inside
 *   C    CUPTI's record of the call arrives
 *   D    the record of the driver call inside arrives
 *   K    the record of its kernel arrives
 *   N    the record of a graph's node arrives, with the id of the call
 *   L    another launch, whose records arrive at once
 *   t    the time at which the kernel begins, if not after the call
 *   .    50 ms pass
 *   :    1 s passes */
static const struct row {
    const char *name, *steps;
    unsigned calls, kernels, arrows; /* in the trace */
    const char *lost;                /* cause of one loss; NULL: none */
    bool joined;                     /* call and kernel name the operator */
    bool before;                     /* the kernel is counted as one that began before its call */
    unsigned others;                 /* kernels of other launches */
    const char *call;                /* NULL: cudaLaunchKernel */
    uint8_t flags;                   /* of its record */
    bool no_effect;                  /* it launches nothing */
    bool no_cupti;
    bool step_0; /* recording begins in step 0, for a program without marks */
} rows[] = {
    {"a launch names its operator", "|([]CK)", 1, 1, 1, .joined = true},
    {"a kernel arrives before its call", "|[]K.C", 1, 1, 1, .lost = NULL},
    {"a call without a hook finds its operator by time", "|{s(w)s}CK", 1, 1, 1, .joined = true,
     .call = "cuLaunchKernel", .flags = GPU_DRIVER},
    {"a call without a hook finds an open operator", "|(swC:)", 1, 0, 0, .joined = true,
     .call = "cuLaunchKernel", .flags = GPU_DRIVER, .no_effect = true},
    {"a driver call inside a runtime call has no row", "|wDKC", 1, 1, 1, .lost = NULL},
    {"a driver call arrives after its runtime call", "|wCDK", 1, 1, 1, .lost = NULL},
    {"a driver call arrives long before its runtime call", "|wDK.C", 1, 1, 1, .lost = NULL},
    {"a driver call arrives last, then nothing for a while", "|wCDK.", 1, 1, 1, .lost = NULL},
    {"a launch before the window is in no trace", "w|LCtK", 1, 0, 1, .others = 1},
    {"CUPTI does not report a hooked call", "|[]", 1, 0, 0, .lost = "call_without_record",
     .call = "cudaMalloc"},
    {"a hooked call without CUPTI", "|[]", 1, 0, 0, .call = "cudaMalloc", .no_cupti = true},
    {"a launch without a kernel", "|[]C", 1, 0, 0, .lost = "launch_without_kernel"},
    {"a failed launch", "|[]C", 1, 0, 0, .flags = GPU_FAILED},
    {"a kernel without a call", "|tsK", 0, 1, 0, .lost = "gpu_without_call"},
    {"a kernel that seems to begin before its launch", "|st.[]CK", 1, 1, 0, .before = true},
    /* CUPTI before 13.1 Update 1 reports nodes of later windows with the id of such a launch. */
    {"a graph's node with the id of a plain launch", "|([]NCK)", 1, 1, 1,
     .lost = "gpu_without_call", .joined = true},
    {"step 0 of a program without marks", "([]CK).", 1, 1, 1, .joined = true, .step_0 = true},
    {"step 0, a record arrives while its hooked call is open", "([C.])tK.", 1, 1, 1, .joined = true,
     .step_0 = true},
    {"step 0 of a program with marks is in no trace", "[]C.|LtK", 1, 0, 1, .others = 1,
     .step_0 = true},
};

static const char *call_of(const struct row *row)
{
    return row->call ? row->call : "cudaLaunchKernel";
}

static void deliver_kernel(const char *name, uint64_t start, uint64_t node)
{
    struct gpu_record r = fake_gpu_kernel_record(name, ID, start);
    r.graph = node ? 9 : 0;
    r.node = node;
    fake_gpu_deliver(&r);
}

static void deliver_call(const char *name, struct happened h, uint8_t flags, bool no_effect)
{
    struct gpu_record r =
        fake_gpu_call_record(name, ID, h, flags, no_effect ? EFFECT_NONE : EFFECT_KERNEL);
    fake_gpu_deliver(&r);
}

static struct trace run(const struct row *row)
{
    const char *call = call_of(row);
    struct thread_log *log = thread_log_get();
    struct happened h = {0}, inner = {0};
    uint64_t begins = 0;
    int key;
    for (const char *step = row->steps; *step; step++) {
        switch (*step) {
        case '|':
            session_step(ACTION_ACTIVE_AND_SAVE);
            break;
        case '(':
            session_open("operator");
            break;
        case ')':
            session_close("operator");
            break;
        case '{':
            session_open("outer");
            break;
        case '}':
            session_close("outer");
            break;
        case 's':
            session_span("span");
            break;
        case '[':
            span_open(log, &key, CAT_CUDA_RUNTIME, call, (uint32_t)strlen(call));
            h = fake_gpu_work();
            break;
        case ']':
            span_close(log, &key);
            break;
        case 'w':
            h.start = clock_ticks();
            inner = fake_gpu_work();
            h.end = clock_ticks();
            break;
        case 'C':
            deliver_call(call, h, row->flags, row->no_effect);
            break;
        case 'D':
            deliver_call("cuLaunchKernel", inner, GPU_DRIVER, false);
            break;
        case 'K':
            deliver_kernel("the_kernel", begins ? begins : h.end + 30000, 0);
            break;
        case 'N':
            deliver_kernel("node", h.end + 1000, 200);
            break;
        case 'L':
            fake_gpu_launch("another", ID + 1);
            break;
        case 't':
            begins = clock_ticks();
            break;
        case '.':
            session_sleep(50);
            break;
        case ':':
            session_sleep(1000);
            break;
        default:
            ck_abort_msg("%s: step %c is unknown", row->name, *step);
        }
    }
    if (strchr(row->steps, '|'))
        return finish();
    session_end();
    return session_trace(0);
}

static void same(const struct row *row, const char *what, double got, double wanted)
{
    ck_assert_msg(got == wanted, "%s: %s: %.0f, not %.0f", row->name, what, got, wanted);
}

static void check_call(const struct row *row, const struct trace *t, double operator_id)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\"", call_of(row));
    const char *line = trace_event(t, 'X', quoted);
    same(row, "operator of the call", trace_number(line, "External id"), operator_id);
    same(row, "correlation of the call", trace_number(line, "correlation"),
         strchr(row->steps, 'C') ? ID : -1);
}

static void check_kernel(const struct row *row, const struct trace *t, double operator_id)
{
    const char *line = trace_event(t, 'X', "\"the_kernel\"");
    same(row, "operator of the kernel", trace_number(line, "External id"), operator_id);
    same(row, "correlation of the kernel", trace_number(line, "correlation"), ID);
}

START_TEST(joins_a_launch)
{
    const struct row *row = &rows[_i];
    if (row->no_cupti)
        atomic_store(&fake_gpu.since, UINT64_MAX);
    session_start(row->step_0 ? ACTION_WARMUP : ACTION_SKIP, row->step_0);
    struct trace t = run(row);
    same(row, "calls", trace_named(&t, 'X', call_of(row)), row->calls);
    if (!row->call)
        same(row, "driver calls", trace_named(&t, 'X', "cuLaunchKernel"), 0);
    same(row, "kernels", trace_named(&t, 'X', "the_kernel"), row->kernels);
    same(row, "other kernels", trace_named(&t, 'X', "another"), row->others);
    same(row, "starts of arrows", trace_count(&t, 's', "ac2g"), row->arrows);
    same(row, "ends of arrows", trace_count(&t, 'f', "ac2g"), row->arrows);
    double operator_id = -1;
    if (row->joined) {
        operator_id = arg_of(&t, "\"operator\"", "External id");
        ck_assert_msg(operator_id > 0, "%s: the operator has no id", row->name);
    }
    if (row->calls && !row->others)
        check_call(row, &t, operator_id);
    if (row->kernels)
        check_kernel(row, &t, operator_id);
    bool has_node = strchr(row->steps, 'N') != NULL;
    same(row, "nodes", trace_named(&t, 'X', "node"), has_node);
    if (has_node)
        same(row, "operator of the node", arg_of(&t, "\"node\"", "External id"), -1);
    const char *lost = strstr(t.text, "\"lost\": {");
    same(row, "losses", trace_number(lost, "total"), row->lost != NULL);
    if (row->lost)
        same(row, row->lost, trace_number(lost, row->lost), 1);
    if (row->kernels)
        same(row, "kernels before their call", trace_number(t.text, "before_call"), row->before);
    ck_assert_ptr_nonnull(strstr(t.text, "\"deviceProperties\": [{\"id\": 0"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"cupti_version\": 130000"));
    trace_free(&t);
}
END_TEST

/* ---- calls and kernels ----------------------------------------------------------------------- */

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
    fake_gpu_kernel("outlives", 1);
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
    hooked_launch();
    session_step(ACTION_ACTIVE_AND_SAVE);
    fake_gpu_launch("second", 2);
    session_step(ACTION_SKIP);
    session_sleep(500);
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    trace_free(&t);
    fake_gpu_kernel("first", 1);
    session_end();
    t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(joins_ids_across_their_wrap)
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

START_TEST(counts_a_kernel_after_its_file_as_late)
{
    begin();
    struct happened h = fake_gpu_hooked("cudaMemcpyAsync", CAT_CUDA_RUNTIME);
    struct gpu_record call = fake_gpu_call_record("cudaMemcpyAsync", 1, h, 0, EFFECT_COPY);
    fake_gpu_deliver(&call);
    session_step(ACTION_SKIP);
    session_sleep(300);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    fake_gpu_kernel("late", 1);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(4);
    trace_check_lost(&t, "late", 1);
    trace_free(&t);
}
END_TEST

START_TEST(counts_cuptis_faults)
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

/* ---- the end of the program ------------------------------------------------------------------ */

START_TEST(exit_waits_for_a_running_kernel)
{
    begin();
    hooked_launch();
    atomic_store(&fake_gpu.kept_back, true);
    session_options.exit_deadline_ms = 500; /* not reached: all records are delivered */
    session_step(ACTION_SKIP);
    fake_gpu_kernel("k", 1);
    atomic_store(&fake_gpu.kept_back, false);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "k"), 1);
    ck_assert_uint_eq(fake_gpu.forced, 0);
    trace_free(&t);
}
END_TEST

START_TEST(writes_the_trace_at_the_exit_deadline)
{
    session_options.exit_deadline_ms = 1000;
    begin();
    hooked_launch();
    atomic_store(&fake_gpu.kept_back, true); /* never released */
    struct trace t = finish();
    ck_assert_uint_eq(fake_gpu.forced, 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    trace_check_lost(&t, "launch_without_kernel", 1);
    trace_free(&t);
}
END_TEST

/* Waits until the cprof thread has asked the GPU side for this. */
static void await_want(enum gpu_want want)
{
    for (int ms = 0; ms < 5000 && atomic_load(&fake_gpu.wants[want]) == 0; ms += 5)
        session_sleep(5);
    ck_assert_uint_gt(atomic_load(&fake_gpu.wants[want]), 0);
}

START_TEST(activity_kinds_are_off_between_windows)
{
    session_start(ACTION_SKIP, false);
    session_sleep(50);
    ck_assert_uint_eq(atomic_load(&fake_gpu.wants[GPU_WANT_ALL]) +
                          atomic_load(&fake_gpu.wants[GPU_WANT_SOON]),
                      0);
    session_step(ACTION_WARMUP);
    await_want(GPU_WANT_ALL);
    ck_assert_uint_eq(atomic_load(&fake_gpu.wants[GPU_WANT_SOON]), 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    await_want(GPU_WANT_SOON);
    session_step(ACTION_SKIP);
    session_sleep(300);
    atomic_store(&fake_gpu.wants[GPU_WANT_SOON], 0);
    atomic_store(&fake_gpu.wants[GPU_WANT_NOTHING], 0);
    session_step(ACTION_WARMUP);
    session_sleep(30);
    session_step(ACTION_SKIP);
    await_want(GPU_WANT_NOTHING);
    session_end();
}
END_TEST

/* ---- graphs, ranges, waits, memory ----------------------------------------------------------- */

START_TEST(graph_nodes_name_the_operator_that_captured_them)
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
    trace_check_lost(&t, "total", 0); /* the captured launch has no kernel */
    trace_free(&t);
}
END_TEST

START_TEST(counts_graph_launches_without_work)
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

START_TEST(ranges_extend_over_their_kernels_on_the_gpu)
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

START_TEST(driver_memory_stands_in_the_callers_row)
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

START_TEST(joins_launches_of_many_threads)
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

/* cprof records such a range when its thread opens the next range, after spans that ended later. It
 * searches spans by their ends. */
START_TEST(joins_launches_beside_a_range_ended_elsewhere)
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
    session_sleep(50); /* the rings are drained before CUPTI's records arrive */
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
    tcase_add_loop_test(c, joins_a_launch, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(c, a_kernel_belongs_to_the_window_of_its_launch);
    tcase_add_test(c, later_windows_do_not_wait_for_earlier_ones);
    tcase_add_test(c, joins_ids_across_their_wrap);
    tcase_add_test(c, counts_a_kernel_after_its_file_as_late);
    tcase_add_test(c, counts_cuptis_faults);
    tcase_add_test(c, exit_waits_for_a_running_kernel);
    tcase_add_test(c, writes_the_trace_at_the_exit_deadline);
    tcase_add_test(c, activity_kinds_are_off_between_windows);
    tcase_add_test(c, graph_nodes_name_the_operator_that_captured_them);
    tcase_add_test(c, counts_graph_launches_without_work);
    tcase_add_test(c, ranges_extend_over_their_kernels_on_the_gpu);
    tcase_add_test(c, driver_memory_stands_in_the_callers_row);
    tcase_add_test(c, joins_launches_of_many_threads);
    tcase_add_loop_test(c, joins_launches_beside_a_range_ended_elsewhere, 0, 20);
    suite_add_tcase(s, c);
    return s;
}
