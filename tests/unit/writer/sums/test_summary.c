/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/sums/summary.h: the parts of steps, the collectives, and what is left out.
 * tests/e2e/support.py compares the summary with `cprof summarize` for every trace that a test
 * reads. */
#include "writer/sums/summary.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/records.h"
#include "tests/support/sandbox.h"
#include "writer/sums/collective_list.h"
#include "writer/writer.h"

#define THREAD 4711u

static struct summary *summary;
static char folder[] = "/tmp/cprof_summary_XXXXXX", trace[64], text[512 << 10];

static void setup(void)
{
    strcpy(folder, "/tmp/cprof_summary_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(trace, sizeof trace, "%s/t.json", folder);
    FILE *f = fopen(trace, "w");
    ck_assert_ptr_nonnull(f);
    fputs("{\"traceEvents\": []}", f);
    fclose(f);
    summary = summary_make(4 << 20);
    ck_assert_ptr_nonnull(summary);
}

static void teardown(void)
{
    summary_free(summary);
    unlink(trace);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else is left */
}

/* Saves the summary and reads it into `text`. */
static void save(void)
{
    struct buf about = {0};
    char path[80];
    buf_puts(&about, ", \"rank\": 3");
    summary_save(summary, trace, &about);
    buf_free(&about);
    snprintf(path, sizeof path, "%s" SUMMARY_SUFFIX, trace);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    unlink(path);
}

static void check_has(const char *wanted)
{
    ck_assert_msg(strstr(text, wanted) != NULL, "no %s in\n%.4000s", wanted, text);
}

static struct json_place place(int64_t start, int64_t end)
{
    return (struct json_place){31337, THREAD, start, end};
}

static void step(int64_t number, int64_t start, int64_t end)
{
    struct json_place at = place(start, end);
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", (int)number);
    summary_step(summary, number, name, &at, THREAD);
}

static struct record *span_record(enum category category, const char *name, const char *args,
                                  size_t n)
{
    return record_new(REC_SPAN, category, name, n ? DATA_ARGS : DATA_NONE, args, n);
}

static void span(enum category category, const char *name, int64_t start, int64_t end)
{
    struct record *r = span_record(category, name, NULL, 0);
    struct json_place at = place(start, end);
    summary_record(summary, r, &at);
    free(r);
}

static void work(enum gpu_kind kind, const char *name, int64_t start, int64_t end, uint32_t device)
{
    struct gpu_record r = {
        .kind = kind, .name = name, .name_len = (uint16_t)strlen(name), .device = device};
    struct json_place at = {device, 7, start, end};
    summary_gpu(summary, &r, &at, 0, NULL);
}

START_TEST(parts_of_a_step_add_up_to_it)
{
    step(4, 0, 1000);
    step(5, 1000, 2000);
    span(CAT_USER_ANNOTATION, "enumerate(DataLoader)#_Next", 0, 100);
    span(CAT_CPU_OP, "aten::stack", 50, 90); /* inside: it is data */
    span(CAT_CPU_OP, "aten::mm", 200, 300);
    span(CAT_CPU_OP, "c10d::allreduce_", 400, 600);
    span(CAT_CPU_OP, "aten::add", 450, 460); /* inside: it is communication */
    span(CAT_USER_ANNOTATION, "gloo:all_reduce", 550, 700);
    span(CAT_CPU_OP, "aten::relu", 900, 1200); /* into the next step */
    save();
    check_has("{\"joined\": 1, \"truncated\": false, \"step\": [4,5], \"count\": [1,1], \"start\": "
              "[0,1000], \"total\": [1000,1000], \"left_out\": [\"first step\",null]");
    check_has("{\"device\": \"cpu\", \"launches\": [0,0], \"computation\": [0,0], "
              "\"exposed_comm\": [0,0], \"exposed_memcpy\": [0,0], \"data\": [100,0], "
              "\"collective\": [200,0], \"sync\": [0,0], \"operators\": [200,200], "
              "\"transfer\": [100,0], \"outside\": [400,800]}]");
}
END_TEST

START_TEST(work_of_a_device_counts_before_the_thread)
{
    step(4, 0, 1000);
    span(CAT_CPU_OP, "aten::mm", 0, 500);
    work(GPU_KERNEL, "gemm", 100, 300, 0);
    work(GPU_KERNEL, "ncclDevKernel_AllReduce", 200, 400, 0);
    work(GPU_KERNEL, "other", 600, 700, 1);
    save();
    check_has("{\"device\": \"cuda:0\", \"launches\": [2], \"computation\": [200], "
              "\"exposed_comm\": [100], \"exposed_memcpy\": [0], \"data\": [0], \"collective\": "
              "[0], \"sync\": [0], \"operators\": [200], \"transfer\": [0], \"outside\": [500]}");
    check_has("{\"device\": \"cuda:1\", \"launches\": [1], \"computation\": [100], ");
    check_has("\"keys\": [[\"ncclDevKernel_AllReduce\", \"\", 0]], \"key\": [0], \"start_delta\": "
              "[200], \"duration\": [200], \"bytes\": [-1], \"number\": [-1]");
}
END_TEST

START_TEST(names_that_are_collectives)
{
    static const struct {
        const char *name;
        bool device;
        enum collective_kind kind;
    } cases[] = {{"ncclDevKernel_AllReduce_Sum_f32_RING_LL", true, COLLECTIVE_NCCL},
                 {"ncclKernel_AllReduce", true, COLLECTIVE_NCCL},
                 {"ncclSymkDevKernel_AllGather", true, COLLECTIVE_NCCL},
                 {"rcclGenericKernel", true, COLLECTIVE_NCCL},
                 {"ncclx Kernel", true, COLLECTIVE_NONE},
                 {"nccl", true, COLLECTIVE_NONE},
                 {"ncclA", true, COLLECTIVE_NONE},
                 {"ncclAb Kernel", true, COLLECTIVE_NONE},
                 {"gemm", true, COLLECTIVE_NONE},
                 {"gloo:all_reduce", false, COLLECTIVE_RANGE},
                 {"gloo", false, COLLECTIVE_NONE},
                 {"MPI_Allreduce", false, COLLECTIVE_MPI},
                 {"PMPI_Bcast", false, COLLECTIVE_MPI},
                 {"MPI_Send", false, COLLECTIVE_NONE},
                 {"MPI_", false, COLLECTIVE_NONE},
                 {"", false, COLLECTIVE_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(collective_kind_of(cases[i].name, strlen(cases[i].name), cases[i].device) ==
                          cases[i].kind,
                      "%s", cases[i].name);
}
END_TEST

START_TEST(calls_that_wait_for_the_device_are_sync)
{
    static const char *const waits[] = {"cudaDeviceSynchronize", "cudaMemcpy2D", "cuCtxSynchronize",
                                        "cuMemcpyDtoH_v2",       "cuMemAlloc",   "cudaFree"};
    static const char *const others[] = {"cudaLaunchKernel", "cudaMemcpyAsync",
                                         "cuMemcpyDtoHAsync_v2", "cudaFreeAsync", "cuda"};
    step(1, 0, 100000);
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        span(CAT_CUDA_RUNTIME, waits[i], 1000 * (int64_t)i, 1000 * (int64_t)i + 10);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        span(CAT_CUDA_RUNTIME, others[i], 50000 + 1000 * (int64_t)i, 50007 + 1000 * (int64_t)i);
    save();
    check_has("\"sync\": [60], \"operators\": [35]");
}
END_TEST

START_TEST(sums_replace_collectives_beyond_the_limit)
{
    /* key, then number: "bytes": 8, "Seq": 1 */
    static const char args[] = "\0\5\0bytes\10\0\0\0\0\0\0\0\0\3\0Seq\1\0\0\0\0\0\0\0";
    struct record *r = span_record(CAT_USER_ANNOTATION, "gloo:all_reduce", args, sizeof args - 1);
    step(7, 0, 1000000);
    step(8, 1000000, 2000000);
    for (int64_t i = 0; i < 2500; i++) {
        struct json_place at = place(500 * i, 500 * i + 10);
        summary_record(summary, r, &at);
    }
    free(r);
    save();
    check_has("{\"collectives\": {\"keys\": [[\"gloo:all_reduce\", \"\", 0]], \"sums\": "
              "[[0, 0, 2000, 20000, 16000, 20000, 999510], [1, 0, 500, 5000, 4000, 5000, 249510]], "
              "\"truncated\": true}}");
    ck_assert_uint_le(strlen(text), 200000);
}
END_TEST

START_TEST(open_collectives_count_once)
{
    struct record *r = span_record(CAT_USER_ANNOTATION, "gloo:all_reduce", NULL, 0);
    struct json_place at = place(10, 20);
    step(1, 0, 100);
    summary_open(summary, r, &at);
    summary_forget_open(summary); /* read again at the next flush */
    at.end_ns = 30;
    summary_open(summary, r, &at);
    free(r);
    save();
    check_has("\"key\": [0], \"start_delta\": [10], \"duration\": [20], ");
}
END_TEST

START_TEST(a_full_table_leaves_steps_and_collectives)
{
    char name[32];
    step(1, 0, 100000);
    span(CAT_USER_ANNOTATION, "gloo:all_reduce", 5, 9);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "range %d", i);
        span(CAT_USER_ANNOTATION, name, i, i + 1);
    }
    save();
    check_has("\"step\": [1], \"count\": [1], \"start\": [0], \"total\": [100000], \"left_out\": "
              "null, \"devices\": null}}\n");
    check_has("\"start_delta\": [5]");
    check_has("{\"table\": null, \"modules\": null}\n{\"end\": true}\n");
}
END_TEST

START_TEST(many_steps_share_rows)
{
    for (int i = 0; i < 2001; i++) {
        step(3 + i, 1000 * i, 1000 * i + 1000);
        work(GPU_KERNEL, "gemm", 1000 * i, 1000 * i + 100 + i % 4, 0);
    }
    save();
    check_has("{\"joined\": 4, \"truncated\": true, \"step\": [3,4,8,12,");
    check_has("\"count\": [1,4,4,");
    check_has(",4,4], \"start\": [0,1000,5000,");
    check_has("\"total\": [1000,4000,4000,");
    check_has("\"device\": \"cuda:0\", \"launches\": [1,4,4,");
    check_has("\"computation\": [100,406,406,");
    ck_assert_uint_le(strlen(text), 200000);
}
END_TEST

START_TEST(steps_share_rows_until_their_collectives_fit)
{
    char name[64];
    for (int i = 0; i < 400; i++) {
        step(i, 1000 * i, 1000 * i + 1000);
        for (int k = 0; k < 10; k++) {
            struct json_place at = place(1000 * i + 10 * k, 1000 * i + 10 * k + 5);
            snprintf(name, sizeof name, "gloo:%d", k);
            struct record *r = span_record(CAT_USER_ANNOTATION, name, NULL, 0);
            summary_record(summary, r, &at);
            free(r);
        }
    }
    save();
    check_has("{\"joined\": 4, \"truncated\": true, \"step\": [0,4,8,");
    check_has("\"sums\": [[0, 0, 4, 20, 0, 20, 3005], [0, 1, 4, 20, 0, 20, 3015], ");
    ck_assert_uint_le(strlen(text), 200000);
}
END_TEST

START_TEST(a_long_table_has_the_names_with_most_time)
{
    char name[300];
    step(0, 0, 2000000);
    memset(name, 'k', sizeof name);
    for (int i = 0; i < 1500; i++) {
        snprintf(name + 280, sizeof name - 280, "%d", i);
        span(CAT_CPU_OP, name, 1000 * i, 1000 * i + 10 + 500 * (i % 5 == 0));
    }
    save();
    check_has("{\"table\": {\"rows\": 1501, \"truncated\": true}, \"modules\": null}\n");
    check_has("k1495\", 0, 0, 0, 1, 510, 510,");
    check_has("k1000\", 0, 0, 0, 1, 510, 510,");
    check_has("k0\", 0, 0, 0, 1, 510, 510,");
    const char *rest = strstr(text, "[\"(other names)\", 0, 0, 0, ");
    int64_t count, cpu, self, all = 1, sum = 1500 * 10 + 300 * 500;
    ck_assert_ptr_nonnull(rest);
    ck_assert_int_eq(sscanf(rest, "[\"(other names)\", 0, 0, 0, %" SCNd64 ", %" SCNd64 ", %" SCNd64,
                            &count, &cpu, &self),
                     3);
    for (const char *at = text; (at = strstr(at, "[\"kkk")); at++) {
        int64_t own;
        ck_assert_int_eq(sscanf(strchr(at, ','), ", 0, 0, 0, 1, %" SCNd64, &own), 1);
        all++;
        sum -= own;
    }
    ck_assert_int_eq(count + all, 1501);
    ck_assert_int_eq(cpu, sum);
    check_has("\n{\"end\": true}\n");
    ck_assert_uint_le(strlen(text), 200000);
    ck_assert_uint_ge(strlen(text), 100000);
}
END_TEST

START_TEST(names_that_json_makes_longer_stay_below_the_limit)
{
    char name[300];
    step(0, 0, 2000000);
    memset(name, 1, sizeof name);
    for (int i = 0; i < 1500; i++) {
        snprintf(name + 280, sizeof name - 280, "%d", i);
        span(CAT_CPU_OP, name, 1000 * i, 1000 * i + 10);
    }
    save();
    check_has("{\"table\": {\"rows\": 1501, \"truncated\": true}, \"modules\": null}\n[\"");
    check_has("\n{\"end\": true}\n");
    ck_assert_uint_le(strlen(text), 200000);
    ck_assert_uint_ge(strlen(text), 50000);
}
END_TEST

START_TEST(a_window_without_steps_is_one)
{
    span(CAT_CPU_OP, "aten::mm", 100, 300);
    span(CAT_CPU_OP, "aten::mm", 400, 700);
    save();
    check_has("\"step\": [null], \"count\": [1], \"start\": [100], \"total\": [600], \"left_out\": "
              "[null], \"devices\": [{\"device\": \"cpu\", ");
    check_has("\"operators\": [500], \"transfer\": [0], \"outside\": [100]}");
}
END_TEST

START_TEST(steps_that_compile_are_left_out)
{
    step(1, 0, 100);
    step(2, 100, 200);
    step(3, 200, 300);
    span(CAT_CPU_OP, "Inductor (dynamo_timed)", 120, 130);
    save();
    check_has("\"left_out\": [\"first step\",\"compilation\",null]");
}
END_TEST

START_TEST(without_memory_there_is_no_summary)
{
    ck_assert_ptr_null(summary_make(0));
    struct buf about = {0};
    summary_save(NULL, trace, &about); /* leaves no file */
    summary_record(NULL, NULL, NULL);
    summary_step(NULL, 1, "", NULL, 0);
    ck_assert_uint_eq(summary_bytes(NULL), 0);
}
END_TEST

Suite *suite_summary(void);

Suite *suite_summary(void)
{
    Suite *suite = suite_create("summary");
    TCase *cases = tcase_create("summary");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, parts_of_a_step_add_up_to_it);
    tcase_add_test(cases, work_of_a_device_counts_before_the_thread);
    tcase_add_test(cases, names_that_are_collectives);
    tcase_add_test(cases, calls_that_wait_for_the_device_are_sync);
    tcase_add_test(cases, sums_replace_collectives_beyond_the_limit);
    tcase_add_test(cases, open_collectives_count_once);
    tcase_add_test(cases, a_full_table_leaves_steps_and_collectives);
    tcase_add_test(cases, many_steps_share_rows);
    tcase_add_test(cases, steps_share_rows_until_their_collectives_fit);
    tcase_add_test(cases, a_long_table_has_the_names_with_most_time);
    tcase_add_test(cases, names_that_json_makes_longer_stay_below_the_limit);
    tcase_add_test(cases, a_window_without_steps_is_one);
    tcase_add_test(cases, steps_that_compile_are_left_out);
    tcase_add_test(cases, without_memory_there_is_no_summary);
    suite_add_tcase(suite, cases);
    return suite;
}
