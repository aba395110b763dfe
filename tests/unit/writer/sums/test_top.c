/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/top.h: sums of a small tree with a late call, kernels and memory; and
 * traces without a table. tests/e2e/support.py compares this table with the table of `cprof top` on
 * every trace that a test reads. */
#include "writer/sums/top.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/records.h"
#include "tests/support/sandbox.h"

#define THREAD 4711u

static struct top *table;
static struct buf rows;

static void setup(void)
{
    table = top_make(1 << 20);
    ck_assert_ptr_nonnull(table);
}

static void teardown(void)
{
    top_free(table);
    buf_free(&rows);
}

static bool finished(struct buf *out)
{
    return top_finish(table) && top_put(table, SIZE_MAX, out).shown && !out->failed;
}

static struct json_place place(int64_t start, int64_t end)
{
    return (struct json_place){31337, THREAD, start, end};
}

static void span(enum category category, const char *name, int64_t start, int64_t end, uint64_t id)
{
    struct record *r = record_new(REC_SPAN, category, name, DATA_NONE, NULL, 0);
    struct json_place at = place(start, end);
    r->id = id;
    top_record(table, r, &at);
    free(r);
}

static void call(const char *name, int64_t start, int64_t end, uint64_t external, uint32_t number)
{
    struct gpu_record r = {
        .kind = GPU_CALL, .name = name, .name_len = (uint16_t)strlen(name), .correlation = number};
    struct json_place at = place(start, end);
    top_gpu(table, &r, &at, external);
}

static void kernel(const char *name, int64_t start, int64_t end, uint64_t external, uint32_t number)
{
    struct gpu_record r = {.kind = GPU_KERNEL,
                           .name = name,
                           .name_len = (uint16_t)strlen(name),
                           .correlation = number};
    struct json_place at = {0, 7, start, end};
    top_gpu(table, &r, &at, external);
}

static void memory(int64_t at_ns, int64_t bytes)
{
    struct record_memory m = {.device_type = 0, .device_index = -1};
    struct record *r = record_new(REC_MEMORY, CAT_MEMORY, "", DATA_MEMORY, &m, sizeof m);
    struct json_place at = place(at_ns, at_ns);
    r->memory.bytes = bytes;
    top_record(table, r, &at);
    free(r);
}

/* Checks the text after the name in the name's row. */
static void check_row(const char *name, const char *numbers)
{
    char line[256];
    snprintf(line, sizeof line, "[\"%s\", %s]\n", name, numbers);
    buf_put(&rows, "", 1);
    ck_assert_msg(strstr(rows.data, line) != NULL, "no %sin\n%s", line, rows.data);
    rows.len--;
}

START_TEST(adds_up_a_call_tree)
{
    memory(15, 100);
    span(CAT_CPU_OP, "aten::mm", 20, 60, 3);
    span(CAT_CPU_OP, "aten::linear", 10, 80, 2);
    memory(85, -30);
    span(CAT_USER_ANNOTATION, "train", 5, 100, 1);
    memory(200, 7);
    kernel("gemm", 300, 350, 3, 9);
    call("cudaLaunchKernel", 30, 40, 3, 9); /* CUPTI reports calls late */
    ck_assert(finished(&rows));
    /* columns: is on a device, is an annotation, is async, count, CPU time, self CPU time, device
     * time, self device time, memory, self memory, device memory, self device memory, FLOPs, start
     * and minus end of the first event */
    check_row("aten::mm", "0, 0, 0, 1, 40, 30, 50, 50, 0, 0, 0, 0, 0, 20, -60");
    check_row("aten::linear", "0, 0, 0, 1, 70, 30, 50, 0, 100, 100, 0, 0, 0, 10, -80");
    check_row("train", "0, 1, 0, 1, 95, 25, 50, 0, 70, -30, 0, 0, 0, 5, -100");
    check_row("cudaLaunchKernel", "0, 0, 0, 1, 10, 10, 0, 0, 0, 0, 0, 0, 0, 30, -40");
    check_row("gemm", "1, 0, 0, 1, 0, 0, 50, 50, 0, 0, 0, 0, 0, 300, -350");
    check_row("[memory]", "0, 0, 0, 1, 0, 0, 0, 0, 7, 7, 0, 0, 0, 200, -200");
}
END_TEST

START_TEST(merges_an_only_child_of_the_same_name)
{
    span(CAT_CPU_OP, "inner", 20, 30, 3);
    span(CAT_CPU_OP, "aten::sum", 15, 40, 2);
    span(CAT_CPU_OP, "aten::sum", 10, 50, 1);
    ck_assert(finished(&rows));
    check_row("aten::sum", "0, 0, 0, 1, 40, 30, 0, 0, 0, 0, 0, 0, 0, 10, -50");
}
END_TEST

/* One transfer ends after the operator in which it began. The other range is on the device, where
 * it is no transfer. */
START_TEST(transfer_ranges_stay_out_of_the_tree)
{
    static const char *const names[] = {"gloo:send", "mpi:send", "ucc:send", "nccl:send"};
    memory(35, 100);
    span(CAT_CPU_OP, "aten::copy_", 30, 40, 3);
    span(CAT_CPU_OP, "c10d::send", 10, 50, 1);
    span(CAT_USER_ANNOTATION, names[_i], 20, 80, 2);
    memory(70, 7);
    kernel("copy", 300, 350, 2, 9);
    span(CAT_GPU_USER_ANNOTATION, names[_i], 300, 350, 2);
    ck_assert(finished(&rows));
    check_row(names[_i], "0, 1, 1, 1, 60, 0, 0, 0, 107, 0, 0, 0, 0, 20, -80");
    check_row("aten::copy_", "0, 0, 0, 1, 10, 10, 0, 0, 100, 100, 0, 0, 0, 30, -40");
    check_row("c10d::send", "0, 0, 0, 1, 40, 30, 50, 50, 100, 0, 0, 0, 0, 10, -50");
    check_row(names[_i], "1, 1, 0, 1, 0, 0, 50, 50, 0, 0, 0, 0, 0, 300, -350");
    ck_assert_ptr_null(strstr(rows.data, "[memory]"));
}
END_TEST

/* n contiguous steps from 0 on, on a row of their own. */
static void add_steps(int n, int64_t length)
{
    for (int i = 0; i < n; i++) {
        struct json_place at = place(length * i, length * (i + 1));
        at.tid = 1;
        top_step(table, i ? "ProfilerStep#8" : "ProfilerStep#7", &at, 0);
    }
}

START_TEST(step_holds_the_spans_that_begin_in_it)
{
    span(CAT_CPU_OP, "a", 10, 50, 1);
    span(CAT_CPU_OP, "b", 90, 130, 2); /* continues into the next step */
    add_steps(2, 100);
    ck_assert(finished(&rows));
    check_row("ProfilerStep*", "0, 1, 0, 2, 200, 120, 0, 0, 0, 0, 0, 0, 0, 0, -100");
}
END_TEST

/* Two nested ranges surround the loop. What runs inside a step is part of the step. Self time of
 * the inner range excludes the steps. */
START_TEST(operators_inside_a_step_belong_to_it)
{
    span(CAT_CPU_OP, "a", 10, 50, 1);
    kernel("gemm", 300, 350, 9, 9);
    call("cudaLaunchKernel", 60, 65, 9, 9);
    memory(70, 100);
    span(CAT_CPU_OP, "b", 90, 130, 2);
    span(CAT_USER_ANNOTATION, "epoch", 0, 250, 3);
    span(CAT_CPU_OP, "behind", 260, 270, 4);
    span(CAT_USER_ANNOTATION, "train", 0, 300, 6);
    add_steps(2, 100);
    ck_assert(finished(&rows));
    check_row("ProfilerStep*", "0, 1, 0, 2, 200, 115, 50, 0, 100, 100, 0, 0, 0, 0, -100");
    check_row("cudaLaunchKernel", "0, 0, 0, 1, 5, 5, 50, 50, 0, 0, 0, 0, 0, 60, -65");
    check_row("epoch", "0, 1, 0, 1, 250, 50, 50, 0, 100, 0, 0, 0, 0, 0, -250");
    check_row("train", "0, 1, 0, 1, 300, 40, 50, 0, 100, 0, 0, 0, 0, 0, -300");
}
END_TEST

/* One step continues from an epoch into the next: each epoch gets the part within its time. */
START_TEST(splits_a_step_across_two_ranges)
{
    span(CAT_USER_ANNOTATION, "train", 0, 200, 1);
    span(CAT_USER_ANNOTATION, "epoch", 0, 100, 2);
    span(CAT_USER_ANNOTATION, "epoch", 100, 200, 3);
    add_steps(6, 30);
    ck_assert(finished(&rows));
    check_row("train", "0, 1, 0, 1, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, -200");
    check_row("epoch", "0, 1, 0, 2, 200, 20, 0, 0, 0, 0, 0, 0, 0, 0, -100");
}
END_TEST

/* A child of a step must not replace the range that contains the steps. */
START_TEST(range_around_steps_keeps_an_inner_namesake)
{
    span(CAT_USER_ANNOTATION, "train", 0, 120, 1);
    span(CAT_USER_ANNOTATION, "train", 35, 55, 2);
    span(CAT_CPU_OP, "mm", 40, 50, 3);
    add_steps(4, 30);
    ck_assert(finished(&rows));
    check_row("ProfilerStep*", "0, 1, 0, 4, 120, 100, 0, 0, 0, 0, 0, 0, 0, 0, -30");
    check_row("train", "0, 1, 0, 2, 140, 10, 0, 0, 0, 0, 0, 0, 0, 0, -120");
}
END_TEST

START_TEST(torch_steps_count_when_cprof_has_none)
{
    span(CAT_CPU_OP, "a", 10, 50, 1);
    span(CAT_USER_ANNOTATION, "ProfilerStep#3", 0, 60, 2);
    /* the name that the trace shows */
    span(CAT_USER_ANNOTATION, "torch.profiler step 4", 60, 90, 3);
    struct json_place at = place(0, 100);
    at.tid = 1;
    if (_i)
        top_step(table, "ProfilerStep#7", &at, THREAD);
    ck_assert(finished(&rows));
    check_row("ProfilerStep*", _i ? "0, 1, 0, 1, 100, 10, 0, 0, 0, 0, 0, 0, 0, 0, -100"
                                  : "0, 1, 0, 2, 90, 50, 0, 0, 0, 0, 0, 0, 0, 0, -60");
    if (_i)
        check_row("ProfilerStep* (torch.profiler)",
                  "0, 1, 0, 2, 90, 50, 0, 0, 0, 0, 0, 0, 0, 0, -60");
}
END_TEST

/* A step with two spans of THREAD and `others` spans of another thread. Spans of the stepping
 * thread reduce the step's self time. */
static void step_beside_another_thread(int others, int64_t others_begin, uint32_t stepping)
{
    memory(1, 8); /* creates the row of THREAD first, which must not matter */
    for (int i = 0; i < others; i++) {
        struct record *r = record_new(REC_SPAN, CAT_CPU_OP, "other", DATA_NONE, NULL, 0);
        struct json_place at = place(others_begin + 10 * i, others_begin + 10 * i + 1);
        at.tid = THREAD + 1;
        top_record(table, r, &at);
        free(r);
    }
    span(CAT_CPU_OP, "a", 20, 30, 1);
    span(CAT_CPU_OP, "b", 40, 50, 2);
    struct json_place at = place(0, 100);
    at.tid = 1;
    top_step(table, "ProfilerStep#7", &at, stepping);
    ck_assert(finished(&rows));
}

START_TEST(steps_belong_to_the_thread_they_name)
{
    step_beside_another_thread(5, 10, THREAD);
    check_row("ProfilerStep*", "0, 1, 0, 1, 100, 80, 0, 0, 8, 8, 0, 0, 0, 0, -100");
}
END_TEST

START_TEST(steps_without_a_thread_belong_to_the_busiest)
{
    step_beside_another_thread(5, 10, THREAD + 2);
    check_row("ProfilerStep*", "0, 1, 0, 1, 100, 95, 0, 0, 8, 8, 0, 0, 0, 0, -100");
}
END_TEST

START_TEST(earlier_of_equally_busy_threads_gets_the_steps)
{
    step_beside_another_thread(2, _i ? 25 : 10, 0);
    check_row("ProfilerStep*", _i ? "0, 1, 0, 1, 100, 80, 0, 0, 8, 8, 0, 0, 0, 0, -100"
                                  : "0, 1, 0, 1, 100, 98, 0, 0, 8, 8, 0, 0, 0, 0, -100");
}
END_TEST

START_TEST(open_spans_count_up_to_the_last_look)
{
    struct record *r = record_new(REC_SPAN, CAT_CPU_OP, "open", DATA_NONE, NULL, 0);
    for (int64_t end = 20; end <= 40; end += 20) {
        struct json_place at = place(10, end);
        top_forget_open(table);
        top_open(table, r, &at);
    }
    free(r);
    ck_assert(finished(&rows));
    check_row("open", "0, 0, 0, 1, 30, 30, 0, 0, 0, 0, 0, 0, 0, 10, -40");
}
END_TEST

START_TEST(accepts_spans_in_any_order)
{
    for (int i = 2000; i > 0; i--)
        span(CAT_CPU_OP, i % 2 ? "x" : "y", 10 * i, 10 * i + 5, 0);
    span(CAT_CPU_OP, "all", 0, 100000, 0);
    ck_assert(finished(&rows));
    check_row("all", "0, 0, 0, 1, 100000, 90000, 0, 0, 0, 0, 0, 0, 0, 0, -100000");
    check_row("x", "0, 0, 0, 1000, 5000, 5000, 0, 0, 0, 0, 0, 0, 0, 10, -15");
}
END_TEST

START_TEST(gives_no_table_beyond_its_memory)
{
    for (int i = 0; i < 40000; i++)
        span(CAT_CPU_OP, "x", 10 * i, 10 * i + 5, 0);
    ck_assert(!finished(&rows));
    span(CAT_CPU_OP, "x", 10, 20, 0);
    kernel("k", 1, 2, 3, 4);
    memory(1, 2);
    ck_assert(!finished(&rows));
    ck_assert_uint_eq(rows.len, 0);
    ck_assert_ptr_null(top_make(0));
    top_record(NULL, NULL, NULL);
    ck_assert(!top_finish(NULL));
}
END_TEST

START_TEST(gives_no_table_for_a_foreign_flops_argument)
{
    /* Readers would take an argument with the key flops for the number that cprof counts. */
    static const char data[] = "\2\5\0flops\1\0\0\0x";
    struct record *r = record_new(REC_SPAN, CAT_USER_ANNOTATION, "mine", DATA_ARGS, data, 13);
    struct json_place at = place(1, 2);
    top_record(table, r, &at);
    free(r);
    ck_assert(!finished(&rows));
}
END_TEST

/* A walk over all threads for each event would take a minute, in which no ring is drained. */
START_TEST(handles_5000_threads)
{
    enum { MANY = 5000, EACH = 150 };
    top_free(table);
    table = top_make(64 << 20);
    struct record_memory m = {.device_type = 0, .device_index = -1};
    struct record *r = record_new(REC_MEMORY, CAT_MEMORY, "", DATA_MEMORY, &m, sizeof m);
    for (int64_t i = 0; i < EACH; i++)
        for (uint32_t thread = 0; thread < MANY; thread++) {
            struct json_place at = {31337, THREAD + thread, i * 1000 + thread, i * 1000 + thread};
            r->memory.bytes = thread % 7;
            top_record(table, r, &at);
        }
    free(r);
    span(CAT_CPU_OP, "aten::add", 1000, 1999, 1); /* the sum over all threads during the span */
    int64_t bytes = 0, inside = 0;
    for (int64_t i = 0; i < EACH; i++)
        for (int64_t thread = 0; thread < MANY; thread++) {
            bytes += thread % 7;
            int64_t at = i * 1000 + thread;
            inside += at >= 1000 && at <= 1999 ? thread % 7 : 0;
        }
    ck_assert(finished(&rows));
    buf_put(&rows, "", 1);
    char line[128];
    snprintf(line, sizeof line, "[\"aten::add\", 0, 0, 0, 1, 999, 999, 0, 0, %lld, %lld, ",
             (long long)inside, (long long)inside);
    ck_assert_msg(strstr(rows.data, line) != NULL, "%s not in %s", line, rows.data);
    const char *rest = strstr(rows.data, "[\"[memory]\"");
    ck_assert_ptr_nonnull(rest);
    snprintf(line, sizeof line, ", 0, 0, 0, 0, %lld, ", (long long)(bytes - inside));
    ck_assert_msg(strstr(rest, line) != NULL, "%s not in %s", line, rest);
}
END_TEST

Suite *suite_top(void);

Suite *suite_top(void)
{
    Suite *s = suite_create("top");
    TCase *c = tcase_create("top");
    tcase_set_timeout(c, 30);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, adds_up_a_call_tree);
    tcase_add_test(c, merges_an_only_child_of_the_same_name);
    tcase_add_loop_test(c, transfer_ranges_stay_out_of_the_tree, 0, 4);
    tcase_add_test(c, step_holds_the_spans_that_begin_in_it);
    tcase_add_test(c, operators_inside_a_step_belong_to_it);
    tcase_add_test(c, splits_a_step_across_two_ranges);
    tcase_add_test(c, range_around_steps_keeps_an_inner_namesake);
    tcase_add_loop_test(c, torch_steps_count_when_cprof_has_none, 0, 2);
    tcase_add_test(c, steps_belong_to_the_thread_they_name);
    tcase_add_test(c, steps_without_a_thread_belong_to_the_busiest);
    tcase_add_loop_test(c, earlier_of_equally_busy_threads_gets_the_steps, 0, 2);
    tcase_add_test(c, open_spans_count_up_to_the_last_look);
    tcase_add_test(c, accepts_spans_in_any_order);
    tcase_add_test(c, handles_5000_threads);
    tcase_add_test(c, gives_no_table_beyond_its_memory);
    tcase_add_test(c, gives_no_table_for_a_foreign_flops_argument);
    suite_add_tcase(s, c);
    return s;
}
