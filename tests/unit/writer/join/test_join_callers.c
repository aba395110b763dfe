/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join/join.h: which of the spans around a launch its call and its kernel name. */
#include "writer/join/join.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"

#define MOST_SPANS 5

/* Spans around a launch, the outermost first. o: operator, r: range, c: call of a communication
 * library, l: call of a matrix library. */
static const struct {
    const char *spans;
    int external; /* index of the span behind `External id`; -1: none */
    bool sends;   /* the kernel is a transfer's and names the collective */
} chains[] = {
    {"", -1, false},
    {"o", 0, false},
    {"r", 0, false},
    {"rr", 1, false},
    {"oo", 1, false},
    {"ro", 1, false},
    {"l", 0, false},
    {"ol", 0, false},
    {"rl", 0, false},
    /* Libraries mark their calls with NVTX ranges, but readers of traces search for an operator. */
    {"or", 0, false},
    {"orr", 0, false},
    {"olr", 0, false},
    {"roror", 3, false},
    {"c", -1, true},
    {"oc", 0, true},
    {"rc", 0, true},
    /* NCCL marks its own calls, so its call is not the innermost span. */
    {"cr", 1, true},
    {"crr", 2, true},
    {"ocr", 0, true},
    {"orcr", 0, true},
    {"oco", 2, false}, /* an operator's work inside a call */
};

static void setup(void)
{
    session_setup();
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
    atomic_store(&fake_gpu.until, 0);
}

static enum category category_of(char kind)
{
    return kind == 'o'   ? CAT_CPU_OP
           : kind == 'r' ? CAT_USER_ANNOTATION
           : kind == 'c' ? CAT_COLLECTIVE
                         : CAT_LIBRARY;
}

/* What preload/collectives/collectives.c writes: {"Collective name": "allreduce"}. */
static void add_collective_name(struct open_span *span)
{
    static const char key[] = "Collective name", text[] = "allreduce";
    uint8_t data[64], *to = data;
    *to++ = ARG_TEXT;
    memcpy(to, &(uint16_t){sizeof key - 1}, 2);
    memcpy(to + 2, key, sizeof key - 1);
    to += 2 + sizeof key - 1;
    memcpy(to, &(uint32_t){sizeof text - 1}, 4);
    memcpy(to + 4, text, sizeof text - 1);
    to += 4 + sizeof text - 1;
    uint32_t n = (uint32_t)(to - data);
    uint8_t *room = span_data_room(thread_log_get(), span, n);
    ck_assert_ptr_nonnull(room);
    memcpy(room, data, n);
    span_data_done(thread_log_get(), span, DATA_ARGS, n);
}

/* The call and the kernel name this span. */
static void check_named(const struct trace *t, double id, const char *spans)
{
    static const char *const rows[] = {"\"cudaLaunchKernel\"", "\"the_kernel\""};
    for (size_t i = 0; i < 2; i++) {
        const char *line = trace_event(t, 'X', rows[i]);
        ck_assert_msg(trace_number(line, "External id") == id, "inside %s: %s", spans, line);
    }
}

START_TEST(a_launch_names_the_span_around_it)
{
    static const char *const names[MOST_SPANS] = {"span_0", "span_1", "span_2", "span_3", "span_4"};
    const char *spans = chains[_i].spans;
    size_t n = strlen(spans);
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    for (size_t i = 0; i < n; i++) {
        struct open_span *span = span_open(thread_log_get(), names[i], category_of(spans[i]),
                                           names[i], (uint32_t)strlen(names[i]));
        if (spans[i] == 'c')
            add_collective_name(span);
    }
    fake_gpu_launch("the_kernel", 5);
    for (size_t i = n; i-- > 0;)
        session_close(names[i]);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    double wanted = -1;
    if (chains[_i].external >= 0) {
        char quoted[24];
        snprintf(quoted, sizeof quoted, "\"span_%d\"", chains[_i].external);
        wanted = trace_number(trace_event(&t, 'X', quoted), "External id");
        ck_assert(wanted > 0);
    }
    check_named(&t, wanted, spans);
    const char *kernel = trace_event(&t, 'X', "\"the_kernel\"");
    bool sends = strstr(kernel, "\"Collective name\": \"allreduce\"") != NULL;
    ck_assert_msg(sends == chains[_i].sends, "inside %s: %s", spans, kernel);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static _Atomic int phase; /* 1: CUPTI is being flushed; 2: the operator has ended since */

static void wait_for(int what)
{
    while (atomic_load(&phase) != what)
        session_sleep(1);
}

static void wait_in_flush(void)
{
    atomic_store(&phase, 1);
    wait_for(2);
}

/* The cprof thread drains rings before it flushes CUPTI. An operator that ends during the flush is
 * no longer open, and its record is not drained yet. _i: a range, whose record is drained, lies
 * between the operator and the launch. */
START_TEST(finds_an_operator_that_ends_during_a_flush)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    span_open(thread_log_get(), &phase, CAT_CPU_OP, "operator", 8);
    if (_i)
        span_open(thread_log_get(), &chains, CAT_USER_ANNOTATION, "range", 5);
    struct happened h = fake_gpu_work();
    if (_i)
        span_close(thread_log_get(), &chains);
    session_span("later"); /* cprof then knows all spans that ended before */
    session_sleep(100);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 5, h, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("the_kernel", 5, h.end + 10);
    fake_gpu_deliver(&work);
    atomic_store(&fake_gpu.meanwhile, wait_in_flush);
    wait_for(1);
    fake_gpu_deliver(&call);
    span_close(thread_log_get(), &phase);
    atomic_store(&phase, 2);
    session_sleep(100);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    double wanted = trace_number(trace_event(&t, 'X', "\"operator\""), "External id");
    ck_assert(wanted > 0);
    check_named(&t, wanted, "operator");
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

static _Atomic unsigned spans_since; /* spans recorded since a flush began */
static _Atomic bool records;

/* Until the ring has spans again. */
static void wait_for_spans_in_flush(void)
{
    atomic_store(&spans_since, 0);
    while (atomic_load(&records) && atomic_load(&spans_since) < 3)
        session_sleep(1);
}

/* Another client may have taken CUPTI before the cprof thread of a busy machine looks at it. */
START_TEST(joins_calls_recorded_before_the_first_look)
{
    atomic_store(&fake_gpu.since, UINT64_MAX);
    atomic_store(&fake_gpu.until, UINT64_MAX);
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct open_span *span = span_open(thread_log_get(), &chains, CAT_CPU_OP, "operator", 8);
    ck_assert_ptr_nonnull(span);
    fake_gpu_launch("the_kernel", 5);
    span_close(thread_log_get(), &chains);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    trace_check_lost(&t, "total", 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "cudaLaunchKernel"), 1);
    check_named(&t, trace_number(trace_event(&t, 'X', "\"operator\""), "External id"), "operator");
    trace_free(&t);
}
END_TEST

/* A range that began before the window ends around a launch and has no record. The thread goes on
 * recording, so its ring is never empty. The launch must not wait for the range longer than its
 * window is open. */
START_TEST(joins_a_launch_inside_a_range_from_before_the_window)
{
    static const char range;
    atomic_store(&records, true);
    session_start(ACTION_SKIP, false);
    span_open(thread_log_get(), &range, CAT_USER_ANNOTATION, "epoch", 5);
    session_step(ACTION_ACTIVE_AND_SAVE);
    span_open(thread_log_get(), &chains, CAT_CPU_OP, "operator", 8);
    struct happened h = fake_gpu_work();
    span_close(thread_log_get(), &chains);
    span_close(thread_log_get(), &range);
    struct gpu_record call = fake_gpu_call_record("cudaLaunchKernel", 5, h, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record("the_kernel", 5, h.end + 10);
    fake_gpu_deliver(&work);
    fake_gpu_deliver(&call);
    session_step(ACTION_ACTIVE_AND_SAVE);
    /* only the cprof thread may translate ticks */
    uint64_t until = clock_monotonic_ns() + 500000000;
    while (clock_monotonic_ns() < until) {
        atomic_store(&fake_gpu.meanwhile, wait_for_spans_in_flush);
        session_span("later");
        atomic_fetch_add(&spans_since, 1);
        usleep(20);
    }
    atomic_store(&records, false);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    trace_check_lost(&t, "total", 0);
    double wanted = trace_number(trace_event(&t, 'X', "\"operator\""), "External id");
    check_named(&t, wanted, "operator");
    trace_free(&t);
}
END_TEST

/* A graph captured around a call of NCCL sends again with each launch. */
START_TEST(each_graph_launch_repeats_its_transfer)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    struct thread_log *log = thread_log_get();
    add_collective_name(span_open(log, &phase, CAT_COLLECTIVE, "ncclAllReduce", 13));
    span_open(log, &chains, CAT_CUDA_RUNTIME, "cudaLaunchKernel", 16);
    struct happened h = fake_gpu_work();
    emit_graph_node(log, 100, 0, true);
    span_close(log, &chains);
    span_close(log, &phase);
    span_open(log, &chains, CAT_CUDA_RUNTIME, "cudaLaunchKernel", 16);
    emit_graph_node(log, 101, 0, true); /* another library's kernel */
    span_close(log, &chains);
    emit_graph_node(log, 200, 100, true); /* instantiated */
    emit_graph_node(log, 201, 101, true);
    struct gpu_record captured = fake_gpu_call_record("cudaLaunchKernel", 1, h, 0, EFFECT_KERNEL);
    fake_gpu_deliver(&captured);
    for (unsigned launch = 2; launch < 4; launch++) {
        h = fake_gpu_hooked("cudaGraphLaunch", CAT_CUDA_RUNTIME);
        struct gpu_record call =
            fake_gpu_call_record("cudaGraphLaunch", launch, h, 0, EFFECT_GRAPH);
        fake_gpu_deliver(&call);
        for (unsigned node = 200; node < 202; node++) {
            struct gpu_record work = fake_gpu_kernel_record(node == 200 ? "sends" : "computes",
                                                            launch, h.end + (node - 199) * 30000);
            work.graph = 9;
            work.node = node;
            fake_gpu_deliver(&work);
        }
        session_sleep(50);
    }
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "sends"), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "computes"), 2);
    unsigned told = 0; /* by the call and by both kernels */
    for (const char *at = t.text; (at = strstr(at, "\"Collective name\": \"allreduce\"")); at++)
        told++;
    ck_assert_uint_eq(told, 3);
    ck_assert_ptr_nonnull(
        strstr(trace_event(&t, 'X', "\"sends\""), "\"Collective name\": \"allreduce\""));
    trace_free(&t);
}
END_TEST

Suite *suite_join_callers(void)
{
    Suite *s = suite_create("join_callers");
    TCase *c = tcase_create("join_callers");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_launch_names_the_span_around_it, 0,
                        (int)(sizeof chains / sizeof *chains));
    tcase_add_loop_test(c, finds_an_operator_that_ends_during_a_flush, 0, 2);
    tcase_add_test(c, joins_calls_recorded_before_the_first_look);
    tcase_add_test(c, joins_a_launch_inside_a_range_from_before_the_window);
    tcase_add_test(c, each_graph_launch_repeats_its_transfer);
    suite_add_tcase(s, c);
    return s;
}
