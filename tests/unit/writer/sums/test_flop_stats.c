/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/flop_stats.h and writer/join/attribution.h: a complete recording with the
 * real cprof thread, spans with FLOPs, and a fake GPU side that delivers their kernels. */
#include "writer/sums/flop_stats.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/capture.h"
#include "tests/support/comma.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"

#define FLOAT        6u
#define BF16         15u
#define CUDA         1u
#define KERNEL_TICKS 20000u

static double peak_of(uint32_t device, unsigned flop_class)
{
    return device == 0 && flop_class == FLOP_BF16 ? 100 : 0;
}

static struct gpu_source source;

static void setup(void)
{
    session_setup();
    source = fake_gpu_source;
    source.peak_tflops = peak_of;
    session_options.gpu = &source;
    session_options.with_flops = true;
    /* CUPTI records the calls; no call recorded by a hook waits for its GPU record. */
    atomic_store(&fake_gpu.since, UINT64_MAX - 1);
}

static void begin(void)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
}

static struct trace finish(void)
{
    session_step(ACTION_SKIP);
    session_end();
    return session_trace(2);
}

/* Opens a span with FLOPs, or with FLOPS_NOT_KNOWN as `where` a span of unknown FLOPs. */
static void open_counted(const char *name, enum category category, uint64_t where, uint64_t flops)
{
    struct thread_log *log = thread_log_get();
    struct open_span *span = span_open(log, name, category, name, (uint32_t)strlen(name));
    span_set_extra(log, span, EXTRA_DTYPE, where);
    if (where == FLOPS_NOT_KNOWN)
        return;
    span_set_extra(log, span, EXTRA_BYTES, flops / 10);
    span_set_extra(log, span, EXTRA_FLOPS, flops);
}

static void count_span(const char *name, uint64_t where, uint64_t flops)
{
    open_counted(name, CAT_CPU_OP, where, flops);
    session_close(name);
}

/* Delivers a launch made now, with or without its kernel. Returns the kernel. */
static struct gpu_record launch(uint32_t correlation, const char *kernel, bool kernel_too)
{
    uint64_t start = clock_ticks();
    for (volatile int i = 0; i < 500; i++)
        ;
    struct gpu_record call = {.kind = GPU_CALL,
                              .name = "cudaLaunchKernel",
                              .name_len = 16,
                              .correlation = correlation,
                              .start = start,
                              .end = clock_ticks(),
                              .device = GPU_NONE,
                              .stream = GPU_NONE,
                              .context = GPU_NONE};
    call.call.tid = (uint32_t)syscall(SYS_gettid);
    call.call.effect = EFFECT_KERNEL;
    struct gpu_record work = {.kind = GPU_KERNEL,
                              .name = kernel,
                              .name_len = (uint16_t)strlen(kernel),
                              .correlation = correlation,
                              .start = call.end,
                              .end = call.end + KERNEL_TICKS,
                              .context = 1,
                              .stream = 7};
    work.kernel.grid[0] = work.kernel.block[0] = 1;
    fake_gpu_deliver(&call);
    if (kernel_too)
        fake_gpu_deliver(&work);
    return work;
}

static double flops_of(const struct trace *t, const char *event)
{
    return trace_number(trace_event(t, 'X', event), "flops");
}

static const char *account(const struct trace *t, const char *device)
{
    const char *at = strstr(t->text, "\"flops\": {\"");
    return at ? strstr(at, device) : NULL;
}

/* A counter's values in the order of the file. Missing ones are -1. */
static void samples(const struct trace *t, const char *name, double *values, unsigned n)
{
    const char *at = t->text;
    char key[64];
    snprintf(key, sizeof key, "\"name\": \"%s\"", name);
    for (unsigned i = 0; i < n; i++) {
        at = at ? strstr(at, key) : NULL;
        const char *args = at ? strstr(at, "\"args\": {\"") : NULL;
        values[i] = args ? strtod(strchr(args + 10, ':') + 1, NULL) : -1;
        at = at ? at + 1 : NULL;
    }
}

/* ---- kernels ---- */

/* The first kernel waits for later records, then turns out to start before its call, as when the
 * clocks differ. An arrow may not go back in time. */
START_TEST(kernel_before_its_call_gets_no_arrow)
{
    begin();
    uint64_t early = clock_ticks();
    session_sleep(30);
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    struct gpu_record work = launch(1, "first", false), second = work;
    second.name = "second";
    second.name_len = 6;
    second.start += KERNEL_TICKS * 2, second.end += KERNEL_TICKS * 2;
    work.start = early, work.end = early + 100;
    fake_gpu_deliver(&work);
    fake_gpu_deliver(&second);
    session_close("aten::mm");
    struct trace t = finish();
    ck_assert_uint_eq(trace_named(&t, 'X', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 1);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g"), 1);
    trace_free(&t);
}
END_TEST

/* The operator launches again long after the first kernel was written. */
START_TEST(kernels_far_apart_get_no_flops)
{
    begin();
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    launch(1, "first", true);
    session_sleep(900);
    launch(2, "second", true);
    session_close("aten::mm");
    struct trace t = finish();
    ck_assert(flops_of(&t, "\"first\"") <= 0);
    ck_assert(flops_of(&t, "\"second\"") <= 0);
    trace_free(&t);
}
END_TEST

START_TEST(only_kernel_gets_the_operators_flops)
{
    begin();
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    launch(1, "gemm", true);
    session_close("aten::mm");
    struct trace t = finish();
    ck_assert(flops_of(&t, "\"gemm\"") == 5000);
    ck_assert(flops_of(&t, "aten::mm") == 5000);
    ck_assert(trace_number(account(&t, "CUDA:0"), "flops") == 5000);
    ck_assert(trace_number(account(&t, "CUDA:0"), "coverage_percent") == 100);
    ck_assert_uint_eq(trace_count(&t, 's', "ac2g"), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', "ac2g"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(counts_flops_on_many_gpus)
{
    static const uint32_t gpus[] = {0, 15, 16, 71};
    begin();
    for (unsigned i = 0; i < 4; i++) {
        open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, gpus[i]), 1000 + gpus[i]);
        struct gpu_record kernel = launch(1 + i, "gemm", false);
        session_close("aten::mm");
        kernel.device = gpus[i];
        fake_gpu_deliver(&kernel);
    }
    struct trace t = finish();
    for (unsigned i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "\"CUDA:%u\"", gpus[i]);
        ck_assert_ptr_nonnull(account(&t, name));
        ck_assert(trace_number(account(&t, name), "flops") == 1000 + gpus[i]);
        ck_assert(trace_number(account(&t, name), "busy_ns") > 0);
        snprintf(name, sizeof name, "Compute CUDA:%u", gpus[i]);
        ck_assert_uint_ge(trace_count(&t, 'C', name), 1);
    }
    ck_assert(trace_number(account(&t, "CUDA:0"), "not_placed") == 0);
    trace_free(&t);
}
END_TEST

/* In the loop's second run the second kernel comes much later. */
START_TEST(two_kernels_get_no_flops)
{
    begin();
    open_counted("aten::conv2d", CAT_CPU_OP, record_where(FLOAT, CUDA, 0), 5000);
    launch(1, "transform", true);
    struct gpu_record late = launch(2, "main", false);
    session_close("aten::conv2d");
    session_sleep(_i ? 300 : 0);
    fake_gpu_deliver(&late);
    struct trace t = finish();
    ck_assert(flops_of(&t, "transform") == -1);
    ck_assert(flops_of(&t, "\"main\"") == -1);
    ck_assert(trace_number(account(&t, "CUDA:0"), "flops") == 5000);
    ck_assert(trace_number(account(&t, "CUDA:0"), "coverage_percent") == 100);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(library_call_inside_operator_is_not_added)
{
    begin();
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    open_counted("cublasGemmEx", CAT_LIBRARY, record_where(BF16, CUDA, 0xff), 4999);
    launch(1, "gemm", true);
    session_close("cublasGemmEx");
    session_close("aten::mm");
    struct trace t = finish();
    ck_assert(flops_of(&t, "cublasGemmEx") == 4999); /* the FLOPs of the call */
    ck_assert(flops_of(&t, "\"gemm\"") == 4999);     /* from the innermost span, the most exact */
    double op = trace_number(trace_event(&t, 'X', "aten::mm"), "External id");
    ck_assert(trace_number(trace_event(&t, 'X', "\"gemm\""), "External id") == op);
    ck_assert(trace_number(account(&t, "CUDA:0"), "flops") == 5000);
    ck_assert(trace_number(account(&t, "\"unknown\""), "not_placed") == 0);
    trace_free(&t);
}
END_TEST

/* The operator's formula assumes single precision; the library call knows the real precision. The
 * next operator must not inherit that precision. */
START_TEST(library_call_sets_the_operators_precision)
{
    begin();
    open_counted("aten::mm", CAT_CPU_OP, record_where(FLOAT, CUDA, 0), 5000);
    open_counted("cublasSgemm", CAT_LIBRARY, record_where(DTYPE_TF32, CUDA, 0xff), 5000);
    session_close("cublasSgemm");
    open_counted("cublasSgemv", CAT_LIBRARY, record_where(FLOAT, CUDA, 0xff), 5000);
    session_close("cublasSgemv");
    session_close("aten::mm");
    count_span("aten::add", record_where(FLOAT, CUDA, 0), 30);
    open_counted("aten::bmm", CAT_CPU_OP, record_where(FLOAT, CUDA, 0), 700);
    open_counted("cublasSgemm", CAT_LIBRARY, record_where(DTYPE_TF32, CUDA, 0xff), 700);
    emit_graph_node(thread_log_get(), 300, 0, true);
    session_close("cublasSgemm");
    session_close("aten::bmm");
    emit_graph_node(thread_log_get(), 400, 300, true);
    struct gpu_record work = launch(1, "bmm", false);
    work.graph = 4;
    work.node = 400;
    fake_gpu_deliver(&work);
    struct trace t = finish();
    ck_assert(trace_number(strstr(account(&t, "CUDA:0"), "\"tfloat32\": {"), "flops") == 5700);
    ck_assert(trace_number(strstr(account(&t, "CUDA:0"), "\"float32\": {"), "flops") == 30);
    trace_free(&t);
}
END_TEST

START_TEST(library_call_counts_on_its_kernels_device)
{
    begin();
    open_counted("cublasGemmEx", CAT_LIBRARY, record_where(BF16, CUDA, 0xff), 5000);
    open_counted("cublasLtMatmul", CAT_LIBRARY, record_where(BF16, CUDA, 0xff), 5000);
    struct gpu_record work = launch(1, "gemm", false);
    work.device = 3;
    fake_gpu_deliver(&work);
    session_close("cublasLtMatmul");
    session_close("cublasGemmEx");
    open_counted("cublasSgemm", CAT_LIBRARY, record_where(FLOAT, CUDA, 0xff), 70);
    session_close("cublasSgemm"); /* launches no kernel */
    struct trace t = finish();
    ck_assert(trace_number(account(&t, "CUDA:3"), "flops") == 5000);
    ck_assert(trace_number(account(&t, "CUDA:3"), "bytes") == 500);
    ck_assert_ptr_null(account(&t, "CUDA:0"));
    ck_assert(trace_number(account(&t, "\"unknown\""), "not_placed") == 70);
    ck_assert_uint_eq(trace_named(&t, 'C', "MFU CUDA:3"), 0); /* the device has no known peak */
    trace_free(&t);
}
END_TEST

/* Opens a span of recomputation, with or without FLOPs. */
static void open_recompute(const char *name, enum category category, uint64_t where, uint64_t flops)
{
    struct thread_log *log = thread_log_get();
    struct open_span *span = span_open(log, name, category, name, (uint32_t)strlen(name));
    span_add_context(span, EXTRAS_RECOMPUTE);
    if (flops)
        span_set_flops(log, span, flops, flops / 10, where);
}

static bool is_marked_recompute(const struct trace *t, const char *name)
{
    return strstr(trace_event(t, 'X', name), "\"recompute\": true");
}

/* Holds for the CPU and for a GPU that is known by the operator's tensors, by the kernel of a
 * library call, or by the launch of a graph. */
START_TEST(recomputed_work_counts_in_hfu_only)
{
    session_options.peaks.cpu = 0.5;
    begin();
    struct thread_log *log = thread_log_get();
    count_span("aten::mm", record_where(BF16, CUDA, 0), 100);
    open_recompute("aten::bmm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 700);
    session_close("aten::bmm");
    open_recompute("custom::op", CAT_CPU_OP, 0, 0);
    struct open_span *call = span_open(log, "gemm", CAT_LIBRARY, "cublasGemmEx", 12);
    span_set_flops(log, call, 40, 4, record_where(BF16, CUDA, 0xff));
    struct gpu_record work = launch(1, "gemm", false);
    fake_gpu_deliver(&work);
    session_close("gemm");
    session_close("custom::op");
    open_recompute("aten::addmm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 60);
    emit_graph_node(log, 100, 0, true);
    session_close("aten::addmm");
    emit_graph_node(log, 200, 100, true);
    work = launch(2, "replayed", false);
    work.graph = 2;
    work.node = 200;
    fake_gpu_deliver(&work);
    count_span("aten::dot", record_where(FLOAT, 0, 0xff), 30);
    open_recompute("aten::mv", CAT_CPU_OP, record_where(FLOAT, 0, 0xff), 90);
    session_close("aten::mv");
    struct trace t = finish();
    const char *gpu = account(&t, "CUDA:0"), *cpu = account(&t, "CPU");
    ck_assert(trace_number(gpu, "flops") == 900 && trace_number(gpu, "recompute_flops") == 800);
    ck_assert(trace_number(cpu, "flops") == 120 && trace_number(cpu, "recompute_flops") == 90);
    double hfu = trace_number(gpu, "hfu_percent"), mfu = trace_number(gpu, "mfu_percent");
    ck_assert(hfu > 0);
    ck_assert_double_eq_tol(mfu, hfu / 9, hfu / 1000);
    hfu = trace_number(cpu, "hfu_percent"), mfu = trace_number(cpu, "mfu_percent");
    ck_assert_double_eq_tol(mfu, hfu / 4, hfu / 1000);
    double useful[1], all[1];
    samples(&t, "MFU CPU", useful, 1);
    samples(&t, "HFU CPU", all, 1);
    ck_assert(all[0] > 0);
    ck_assert_double_eq_tol(useful[0], all[0] / 4, all[0] / 1000);
    static const char *const again[] = {"aten::bmm", "custom::op", "cublasGemmEx", "aten::mv"};
    for (unsigned i = 0; i < 4; i++)
        ck_assert(is_marked_recompute(&t, again[i]));
    ck_assert(!is_marked_recompute(&t, "aten::mm"));
    trace_free(&t);
}
END_TEST

/* A graph node that an operator with FLOPs made counts at each launch of the graph. */
START_TEST(counts_captured_work_at_each_launch)
{
    begin();
    struct thread_log *log = thread_log_get();
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    open_counted("cublasGemmEx", CAT_LIBRARY, record_where(BF16, CUDA, 0xff), 4999);
    emit_graph_node(log, 99, 0, false); /* a memset */
    emit_graph_node(log, 100, 0, true);
    session_close("cublasGemmEx");
    open_counted("cublasGemmEx", CAT_LIBRARY, record_where(BF16, CUDA, 0xff), 17);
    emit_graph_node(log, 101, 0, true);
    session_close("cublasGemmEx");
    session_close("aten::mm");
    emit_graph_node(log, 200, 100, true); /* instantiated */
    emit_graph_node(log, 201, 101, true);
    for (uint32_t i = 1; i <= 3; i++) {
        struct gpu_record work = launch(i, "gemm", false);
        work.graph = 2;
        work.node = 200;
        fake_gpu_deliver(&work);
        work.name = "small";
        work.name_len = 5;
        work.node = 201;
        fake_gpu_deliver(&work);
    }
    struct trace t = finish();
    ck_assert(flops_of(&t, "aten::mm") == -1);
    ck_assert(trace_number(trace_event(&t, 'X', "aten::mm"), "captured flops") == 5000);
    ck_assert(flops_of(&t, "\"gemm\"") == 4999);
    ck_assert(flops_of(&t, "\"small\"") == 17);
    ck_assert(trace_number(account(&t, "CUDA:0"), "flops") == 3 * 5000);
    ck_assert(trace_number(account(&t, "CUDA:0"), "bytes") == 3 * 500);
    ck_assert(trace_number(account(&t, "CUDA:0"), "coverage_percent") == 100);
    ck_assert(trace_number(account(&t, "\"unknown\""), "not_placed") == 0);
    trace_free(&t);
}
END_TEST

START_TEST(coverage_is_a_share_of_kernel_time)
{
    begin();
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    launch(1, "gemm", true);
    session_close("aten::mm");
    session_open("aten::sort");
    for (uint32_t i = 2; i < 5; i++)
        launch(i, "sort", true);
    session_close("aten::sort");
    struct trace t = finish();
    ck_assert_double_eq_tol(trace_number(account(&t, "CUDA:0"), "coverage_percent"), 25, 0.01);
    trace_free(&t);
}
END_TEST

/* Zeros would look like a slow program. The trace has no counters, and the account reports that
 * nothing was counted. */
START_TEST(window_without_flops_has_no_counters)
{
    begin();
    session_open("aten::sort");
    launch(1, "sort", true);
    session_close("aten::sort");
    struct trace t = finish();
    ck_assert_ptr_null(strstr(t.text, "\"ph\": \"C\", \"name\": \"Compute"));
    ck_assert_ptr_null(strstr(t.text, "\"ph\": \"C\", \"name\": \"MFU"));
    ck_assert(trace_number(account(&t, "CUDA:0"), "coverage_percent") == 0);
    ck_assert(trace_number(account(&t, "CUDA:0"), "flops") == 0);
    ck_assert(trace_number(account(&t, "CUDA:0"), "busy_ns") > 0);
    trace_free(&t);
}
END_TEST

/* When only another device has FLOPs, this device appears in the account only. */
START_TEST(device_without_flops_has_no_counters)
{
    begin();
    open_counted("aten::mm", CAT_CPU_OP, record_where(BF16, CUDA, 0), 5000);
    launch(1, "gemm", true);
    session_close("aten::mm");
    session_open("aten::sort");
    struct gpu_record work = launch(2, "sort", false);
    work.device = 1;
    fake_gpu_deliver(&work);
    session_close("aten::sort");
    struct trace t = finish();
    ck_assert_uint_ge(trace_named(&t, 'C', "Compute CUDA:0"), 1);
    ck_assert_uint_ge(trace_named(&t, 'C', "MFU CUDA:0"), 1);
    ck_assert_uint_eq(trace_named(&t, 'C', "Compute CUDA:1"), 0);
    ck_assert_uint_eq(trace_named(&t, 'C', "MFU CUDA:1"), 0);
    ck_assert(trace_number(account(&t, "CUDA:0"), "coverage_percent") == 100);
    ck_assert(trace_number(account(&t, "CUDA:1"), "coverage_percent") == 0);
    ck_assert_ptr_null(strstr(t.text, "FLOP coverage"));
    trace_free(&t);
}
END_TEST

/* ---- steps ---- */

START_TEST(span_counts_in_the_step_where_it_began)
{
    session_options.peaks.cpu = 0.001;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
    uint64_t start = session_step(ACTION_ACTIVE);
    count_span("aten::mm", record_where(FLOAT, 0, 0xff), 300);
    open_counted("aten::bmm", CAT_CPU_OP, record_where(FLOAT, 0, 0xff), 700);
    count_span("aten::add", record_where(FLOAT, 0, 0xff), 5); /* inside aten::bmm, so not added */
    session_sleep(2);
    uint64_t end = session_step(ACTION_ACTIVE_AND_SAVE);
    session_close("aten::bmm");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(4);
    double rates[6], used[6];
    samples(&t, "Compute CPU", rates, 6);
    samples(&t, "MFU CPU", used, 6);
    double seconds = (double)(end - start) / clock_ticks_per_second();
    ck_assert(rates[0] == 0 && rates[2] == 0 && rates[3] == 0 && rates[4] == -1);
    ck_assert_double_eq_tol(rates[1] * 1e9 * seconds, 1000, 20);
    ck_assert_double_eq_tol(used[1], 100 * rates[1], used[1] / 100);
    ck_assert(trace_number(account(&t, "CPU"), "flops") == 1000);
    ck_assert(trace_number(account(&t, "CPU"), "bytes") == 100);
    trace_free(&t);
}
END_TEST

/* Nested operators are part of the outer operator's time, also many of them and with ranges in
 * between. */
START_TEST(nested_operators_add_no_cpu_time)
{
    begin();
    for (int i = 0; i < 3; i++) {
        span_open(thread_log_get(), "backward", CAT_CPU_OP, "backward", 8);
        for (int k = 0; k < (_i ? 600 : 40); k++) {
            span_open(thread_log_get(), "around", _i ? CAT_USER_ANNOTATION : CAT_CPU_OP, "around",
                      6);
            count_span("aten::mm", record_where(FLOAT, 0, 0xff), 300);
            session_close("around");
        }
        session_sleep(5);
        session_close("backward");
    }
    struct trace t = finish();
    double all = 0;
    for (const char *at = t.text; (at = strstr(at, "\"name\": \"backward\"")); at++)
        all += 1000 * trace_number(at, "dur");
    ck_assert_double_eq_tol(trace_number(account(&t, "CPU"), "busy_ns"), all, all / 1e4);
    ck_assert(trace_number(account(&t, "CPU"), "counted_ns") < all / 2);
    trace_free(&t);
}
END_TEST

static void open_operator(const char *name)
{
    span_open(thread_log_get(), name, CAT_CPU_OP, name, (uint32_t)strlen(name));
}

static double sum_of(const struct trace *t, const char *name)
{
    char key[64];
    double all = 0;
    snprintf(key, sizeof key, "\"name\": \"%s\"", name);
    for (const char *at = t->text; (at = strstr(at, key)); at++)
        all += 1000 * trace_number(at, "dur");
    return all;
}

/* The operator outlasts its window. Operators inside it after that count in the next window. */
START_TEST(splits_operator_time_across_two_windows)
{
    static const int behind[] = {1, 10, 300, 600};
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    count_span("count", record_where(FLOAT, 0, 0xff), 300);
    open_operator("around");
    open_operator("before");
    session_sleep(2);
    session_close("before");
    session_step(ACTION_ACTIVE_AND_SAVE);
    for (int i = 0; i < behind[_i]; i++) {
        open_operator("behind");
        if (i % 64 == 0)
            session_sleep(2);
        session_close("behind");
    }
    session_close("around");
    count_span("count", record_where(FLOAT, 0, 0xff), 300);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_double_eq_tol(trace_number(account(&t, "CPU"), "busy_ns"),
                            sum_of(&t, "around") + sum_of(&t, "count"), 1000);
    trace_free(&t);
    t = session_trace(2);
    ck_assert_double_eq_tol(trace_number(account(&t, "CPU"), "busy_ns"),
                            sum_of(&t, "behind") + sum_of(&t, "count"), 1000);
    trace_free(&t);
}
END_TEST

START_TEST(counts_operators_of_unknown_flops)
{
    begin();
    count_span("aten::mm", record_where(FLOAT, 0, 0xff), 300);
    open_counted("aten::bmm", CAT_CPU_OP, FLOPS_NOT_KNOWN, 0);
    session_close("aten::bmm");
    struct trace t = finish();
    ck_assert(trace_number(account(&t, "\"unknown\""), "unknown") == 1);
    ck_assert(flops_of(&t, "aten::bmm") == -1);
    trace_free(&t);
}
END_TEST

START_TEST(reports_nothing_without_flops)
{
    session_options.with_flops = false;
    begin();
    count_span("aten::mm", record_where(FLOAT, 0, 0xff), 300);
    struct trace t = finish();
    ck_assert_ptr_null(account(&t, "CPU"));
    ck_assert_ptr_null(strstr(t.text, "FLOP/s"));
    trace_free(&t);
}
END_TEST

/* More steps than flop_stats keeps. Each step gets its counters once, and a record for a step that
 * was written already counts as late. */
START_TEST(writes_each_of_many_steps_once)
{
    struct flop_stats *s = flop_stats_make(0);
    struct writer_options options = {.with_flops = true};
    struct buf body = {0}, trailer = {0};
    struct energy_use spent[GPU_STATES] = {0};
    struct {
        struct record r;
        uint64_t extras[2];
    } op = {.r = {.kind = REC_SPAN,
                  .category = CAT_CPU_OP,
                  .extras = 1u << EXTRA_FLOPS | 1u << EXTRA_DTYPE},
            .extras = {1000, record_where(FLOAT, 0, 0xff)}};
    enum { STEPS = 3 * FLOP_STEPS };
    for (int i = 0; i < STEPS; i++) {
        struct json_place at = {1, 1, i * 1000 + 10, i * 1000 + 20};
        flop_stats_span(s, NULL, &op.r, &at);
        flop_stats_step(s, i * 1000, (i + 1) * 1000, &options, 1, &body);
    }
    struct json_place old = {1, 1, 10, 20}, newest = {1, 1, STEPS * 1000 - 500, STEPS * 1000 - 400};
    flop_stats_span(s, NULL, &op.r, &old);
    flop_stats_span(s, NULL, &op.r, &newest);
    flop_stats_counters(s, STEPS * 1000, &options, 1, &trailer);
    flop_stats_account(s, STEPS * 1000, spent, &options, &trailer);
    buf_put(&trailer, "", 1);
    buf_put(&body, "", 1);
    unsigned n = 0, twice = 0;
    for (const char *at = body.data; (at = strstr(at, "\"GFLOP/s\": 1}")); at++)
        n++;
    for (const char *at = trailer.data; (at = strstr(at, "\"GFLOP/s\": 1}")); at++)
        n++;
    for (const char *at = trailer.data; (at = strstr(at, "\"GFLOP/s\": 2}")); at++)
        twice++;
    ck_assert_uint_eq(n, STEPS - 1);
    ck_assert_uint_eq(twice, 1); /* a late record reached the newest step */
    ck_assert(trace_number(trailer.data, "late") >= 1);
    ck_assert(trace_number(strstr(trailer.data, "\"CPU\""), "flops") == 1000 * (STEPS + 2));
    buf_free(&body);
    buf_free(&trailer);
    flop_stats_free(s);
}
END_TEST

START_TEST(maps_types_to_flop_classes)
{
    ck_assert_int_eq(flop_class_of(FLOAT), FLOP_FP32);
    ck_assert_int_eq(flop_class_of(BF16), FLOP_BF16);
    ck_assert_int_eq(flop_class_of(5), FLOP_FP16);
    ck_assert_int_eq(flop_class_of(7), FLOP_FP64);
    ck_assert_int_eq(flop_class_of(9), FLOP_FP32);
    ck_assert_int_eq(flop_class_of(24), FLOP_FP8);
    ck_assert_int_eq(flop_class_of(DTYPE_TF32), FLOP_TF32);
    ck_assert_int_eq(flop_class_of(4), FLOP_OTHER);
    ck_assert_int_eq(flop_class_of(FLOPS_NOT_KNOWN), FLOP_OTHER);
}
END_TEST

/* ---- numbers ---- */

START_TEST(numbers_ignore_a_decimal_comma)
{
    char folder[sizeof session_folder + 8];
    snprintf(folder, sizeof folder, "%s/locale", session_folder);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    if (!comma_locale(folder))
        return;
    ck_assert_int_eq(system("rm -r \"$LOCPATH\""), 0);
    session_options.peaks.cpu = 0.5;
    begin();
    count_span("aten::mm", record_where(FLOAT, 0, 0), 123457);
    count_span("aten::mm", record_where(BF16, CUDA, 0), 5000);
    struct trace t = finish();
    const char *cpu = account(&t, "CPU");
    ck_assert_ptr_nonnull(cpu);
    ck_assert(trace_number(cpu, "flops") == 123457);
    ck_assert_ptr_nonnull(strstr(cpu, "\"peak_tflops_per_s\": 0.5"));
    trace_free(&t);
}
END_TEST

/* The quotient would be infinite. Infinity is not JSON, and Perfetto hangs on such a counter. */
START_TEST(tiny_peak_gives_no_mfu)
{
    session_options.peaks.cpu = 1e-308;
    begin();
    count_span("aten::mm", record_where(FLOAT, 0, 0), (uint64_t)1 << 62);
    session_sleep(1);
    struct trace t = finish();
    ck_assert_ptr_nonnull(account(&t, "CPU"));
    ck_assert_uint_eq(trace_count(&t, 'C', "MFU"), 0);
    trace_free(&t);
}
END_TEST

Suite *suite_flop_stats(void)
{
    Suite *suite = suite_create("flop_stats");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, session_teardown);
    tcase_add_test(all, numbers_ignore_a_decimal_comma);
    tcase_add_test(all, tiny_peak_gives_no_mfu);
    tcase_add_test(all, only_kernel_gets_the_operators_flops);
    tcase_add_test(all, kernels_far_apart_get_no_flops);
    tcase_add_test(all, kernel_before_its_call_gets_no_arrow);
    tcase_add_test(all, counts_flops_on_many_gpus);
    tcase_add_loop_test(all, two_kernels_get_no_flops, 0, 2);
    tcase_add_test(all, library_call_inside_operator_is_not_added);
    tcase_add_test(all, library_call_counts_on_its_kernels_device);
    tcase_add_test(all, library_call_sets_the_operators_precision);
    tcase_add_test(all, recomputed_work_counts_in_hfu_only);
    tcase_add_test(all, counts_captured_work_at_each_launch);
    tcase_add_test(all, coverage_is_a_share_of_kernel_time);
    tcase_add_test(all, window_without_flops_has_no_counters);
    tcase_add_test(all, device_without_flops_has_no_counters);
    tcase_add_test(all, span_counts_in_the_step_where_it_began);
    tcase_add_loop_test(all, nested_operators_add_no_cpu_time, 0, 2);
    tcase_add_loop_test(all, splits_operator_time_across_two_windows, 0, 4);
    tcase_add_test(all, counts_operators_of_unknown_flops);
    tcase_add_test(all, reports_nothing_without_flops);
    tcase_add_test(all, writes_each_of_many_steps_once);
    tcase_add_test(all, maps_types_to_flop_classes);
    suite_add_tcase(suite, all);
    return suite;
}
