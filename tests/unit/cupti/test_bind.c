/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/bind.h: the places where cprof looks for libcupti. With CUPTI's headers, the
 * compiler compares bind.def with their prototypes, and constants.h with their numbers and
 * layouts. */
#include "cupti/bind.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<cupti.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cuda.h>
#include <cupti.h>
#pragma GCC diagnostic pop

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(CUPTI_OK, CUPTI_SUCCESS);
SAME(CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
SAME(CUPTI_INSUFFICIENT, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_NO_REASON, CUPTI_ERROR_UNKNOWN);
SAME(CUPTI_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(CUPTI_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(CUPTI_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(CUPTI_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
SAME(CUPTI_INIT_FINISHED, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED);
SAME(CUPTI_NODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
SAME(CUPTI_NODE_CLONED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
SAME(CUPTI_THREAD_DEFAULT, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
SAME(CUPTI_THREAD_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME(CUPTI_ZEROED_BUFFERS, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME(CUPTI_HOST_PINNED, CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED);
SAME(CUPTI_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
#if CUDA_VERSION >= 12030
SAME(CUPTI_NODE_CONDITIONAL, CU_GRAPH_NODE_TYPE_CONDITIONAL);
#endif
SAME(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(offsetof(struct cupti_resource, graph), offsetof(CUpti_ResourceData, resourceDescriptor));
SAME(offsetof(struct cupti_graph_data, node), offsetof(CUpti_GraphData, node));
SAME(offsetof(struct cupti_graph_data, node_type), offsetof(CUpti_GraphData, nodeType));
SAME(offsetof(struct cupti_graph_data, original_node), offsetof(CUpti_GraphData, originalNode));
#if CUPTI_API_VERSION >= 20
SAME(CUPTI_STATE, CUPTI_CB_DOMAIN_STATE);
SAME(CUPTI_FATAL_ERROR, CUPTI_CBID_STATE_FATAL_ERROR);
SAME(offsetof(struct cupti_state, message), offsetof(CUpti_StateData, notification.message));
#endif
#if CUPTI_API_VERSION >= 21
SAME(CUPTI_PER_THREAD_BUFFERS, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
#endif

/* The real functions, called as bind.def's rows declare them. A call compiles only if its
 * arguments fit the prototype. `inline`: gcc emits any other unused function at -O0, which then
 * needs libcupti to link. */
static inline __attribute__((unused)) void fits(void *p, uint64_t *n, uint32_t *w, size_t *z,
                                                char **t)
{
    uint8_t *bytes = p;
    cuptiGetVersion(w);
    cuptiGetTimestamp(n);
    cuptiGetResultString(0, (const char **)t);
    cuptiGetCallbackName(1, 2, (const char **)t);
    cuptiGetGraphNodeId(p, n);
    cuptiUnsubscribe(p);
    cuptiEnableCallback(1, p, 3, 4);
    cuptiActivitySetAttribute(5, z, p);
    cuptiSetThreadIdType(1);
    cuptiActivityEnable(1);
    cuptiActivityEnableAndDump(1);
    cuptiActivityDisable(1);
    cuptiActivityFlushAll(1);
    cuptiActivityGetNextRecord(bytes, *z, p);
    cuptiActivityGetNumDroppedRecords(p, 0, z);
#if CUPTI_API_VERSION >= 23
    cuptiActivityEnableRuntimeApi(1, 0);
    cuptiActivityEnableDriverApi(1, 0);
#endif
#if CUPTI_API_VERSION >= 26
    cuptiActivityEnableAllSyncRecords(0);
#endif
}
#endif

static bool found(const char *loaded, int major, const char *expected)
{
    char path[512], real[512];
    for (unsigned n = 0; bind_place(loaded, major, n, path, sizeof path); n++) {
        /* removes "x/../" by hand, because the folders do not exist */
        snprintf(real, sizeof real, "%s", path);
        for (char *up; (up = strstr(real, "/../"));) {
            char *at = up;
            while (at > real && at[-1] != '/')
                at--;
            memmove(at, up + 4, strlen(up + 4) + 1);
        }
        if (strcmp(real, expected) == 0)
            return true;
    }
    return false;
}

START_TEST(finds_cupti_beside_the_runtime)
{
    static const struct {
        const char *loaded;
        int major;
        const char *expected;
    } cases[] = {
        {"/s/nvidia/cuda_runtime/lib/libcudart.so.12", 12,
         "/s/nvidia/cuda_cupti/lib/libcupti.so.12"},
        {"/s/nvidia/cuda_runtime/lib/libcudart.so.11.0", 11,
         "/s/nvidia/cuda_cupti/lib/libcupti.so.11.8"},
        {"/s/nvidia/cu13/lib/libcudart.so.13", 13, "/s/nvidia/cu13/lib/libcupti.so.13"},
        {"/opt/cuda-12.4/lib64/libcudart.so.12", 12,
         "/opt/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12"},
        {"/opt/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12", 12,
         "/opt/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12"},
        {"/conda/lib/libcudart.so.12", 12, "/conda/lib/libcupti.so.12"},
        {"/s/torch/lib/libtorch_cuda.so", 12, "/s/nvidia/cuda_cupti/lib/libcupti.so.12"},
        {"/s/torch/lib/libtorch_cuda.so", 13, "/s/nvidia/cu13/lib/libcupti.so.13"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!found(cases[i].loaded, cases[i].major, cases[i].expected))
            ck_abort_msg("beside %s: %s is not among the places", cases[i].loaded,
                         cases[i].expected);
}
END_TEST

START_TEST(lists_finitely_many_places)
{
    char path[64];
    unsigned n = 0;
    while (bind_place("/a/b/libcudart.so.12", 12, n, path, sizeof path))
        n++;
    ck_assert_uint_gt(n, 3);
    ck_assert(!bind_place("libcudart.so.12", 12, 0, path, sizeof path));
    ck_assert(bind_place("/a/b/libcudart.so.12", 12, 0, path, 8));
    ck_assert_str_eq(path, ""); /* a path that is too long is skipped */
}
END_TEST

START_TEST(gives_versions_without_a_library)
{
    struct cupti none = {0};
    ck_assert_str_eq(bind_error(&none, 15), "unknown error");
    int minor;
    ck_assert_int_eq(bind_file_version("/x.so.1/libcudart.so.12.4.127", &minor), 12);
    ck_assert_int_eq(minor, 4);
    ck_assert_int_eq(bind_file_version("libcudart.so.13", &minor), 13);
    ck_assert_int_eq(minor, -1);
    ck_assert_int_eq(bind_file_version("/lib/libcudart.so", &minor), 0);
    ck_assert_int_eq(bind_driver_cuda(580), 13);
    ck_assert_int_eq(bind_driver_cuda(579), 12);
    ck_assert_int_eq(bind_driver_cuda(525), 12);
    ck_assert_int_eq(bind_driver_cuda(470), 11);
    ck_assert_int_eq(bind_driver_cuda(1), 0);
    ck_assert_int_eq(bind_runtime_version(), 0);
}
END_TEST

Suite *suite_bind(void)
{
    Suite *s = suite_create("bind");
    TCase *c = tcase_create("bind");
    tcase_add_test(c, finds_cupti_beside_the_runtime);
    tcase_add_test(c, lists_finitely_many_places);
    tcase_add_test(c, gives_versions_without_a_library);
    suite_add_tcase(s, c);
    return s;
}
