/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/gpu_names.h: kernel names, demangled and stored, and the name, the effect and the
 * visibility of CUDA calls. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/gpu_names.h"
#include "cupti/translate.h"

/* defines CUDA's types for preload/hooks/hooks.def */
#include "preload/hooks/hooks.h"
#include "tests/support/sanitizer.h"

#define ck_text(got, want)                                                                         \
    do {                                                                                           \
        struct gpu_text text_ = (got);                                                             \
        ck_assert_ptr_nonnull(text_.text);                                                         \
        ck_assert_uint_eq(text_.len, strlen(want));                                                \
        ck_assert_mem_eq(text_.text, want, text_.len);                                             \
    } while (0)

START_TEST(demangles_kernel_names)
{
    ck_text(gpu_name("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
    ck_text(gpu_name(""), "");
    ck_text(gpu_name("f"), "f"); /* "f" is a type's code but no mangled name */
    ck_text(gpu_name("_Z"), "_Z");
    ck_text(gpu_name("_Znot_mangled"), "_Znot_mangled");
    ck_text(gpu_name(NULL), "(unnamed kernel)");
#ifndef CPROF_NO_DEMANGLE
    ck_text(gpu_name("_Z6vecaddPfPKfS1_i"), "vecadd(float*, float const*, float const*, int)");
    ck_text(
        gpu_name("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"),
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    ck_text(
        gpu_name("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEENS_6"
                 "detail5ArrayIPcLi3EEEEEviT0_T1_"),
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
        "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, "
        "at::detail::Array<char*, 3>)");
#endif
}
END_TEST

START_TEST(keeps_each_name_once)
{
    char name[32] = "kernel_one";
    struct gpu_text one = gpu_name(name);
    ck_assert_ptr_eq(gpu_name("kernel_one").text, one.text);
    ck_assert_ptr_ne(one.text, name);
    /* After a module was unloaded, another name has the same address: longer, shorter, or with the
     * same beginning. */
    strcpy(name, "kernel_two_is_longer");
    ck_text(gpu_name(name), "kernel_two_is_longer");
    strcpy(name, "ker");
    ck_text(gpu_name(name), "ker");
    strcpy(name, "kernel_one");
    ck_assert_ptr_eq(gpu_name(name).text, one.text);
    ck_text(one, "kernel_one");
}
END_TEST

START_TEST(keeps_20000_names)
{
    enum { N = 20000 };
    const char **texts = calloc(N, sizeof(*texts));
    char name[32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof(name), "kernel_%d", i);
            struct gpu_text text = gpu_name(name);
            ck_text(text, name);
            if (round == 0)
                texts[i] = text.text;
            ck_assert_ptr_eq(text.text, texts[i]);
        }
    }
    free(texts);
}
END_TEST

/* Names with template arguments can have many thousand characters. */
START_TEST(cuts_long_names)
{
    static char name[100001];
    memset(name, 'k', sizeof(name) - 1);
    struct gpu_text text = gpu_name(name);
    ck_assert_uint_eq(text.len, UINT16_MAX);
    ck_assert_mem_eq(text.text, name, UINT16_MAX);
    /* Names that differ only in the part that is cut off are different names. */
    name[sizeof(name) - 2] = 'x';
    ck_assert_ptr_ne(gpu_name(name).text, text.text);

    /* libsupc++ gives up above 1024 characters: the name stays mangled. */
    strcpy(name, "_Z1fI");
    for (int i = 0; i < 400; i++)
        strcat(name, "N3abc2deE");
    strcat(name, "EvT_");
    ck_text(gpu_name(name), name);

    /* a short name that is long when demangled */
    strcpy(name, "_Z1f");
    for (int i = 0; i < 100; i++)
        strcat(name, "i");
    text = gpu_name(name);
#ifndef CPROF_NO_DEMANGLE
    ck_assert_uint_eq(text.len, 100 * 5 + 1);
#endif

    /* Each type names the previous type twice, so the demangled name exceeds all memory. It must be
     * cut, and quickly. */
    strcpy(name, "_Z1f1AIiiE");
    for (const char *before = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"; *before; before++)
        sprintf(name + strlen(name), "S_IS%c_S%c_E", *before, *before);
    text = gpu_name(name);
#ifndef CPROF_NO_DEMANGLE
    ck_assert_uint_eq(text.len, UINT16_MAX);
    ck_assert_mem_eq(text.text, "f(A<int, int>, A<A<int, int>, A<int, int> >, ", 45);
#endif
}
END_TEST

/* ThreadSanitizer uses 770 KB of each thread's stack. */
#define STACK (UNDER_TSAN ? 2u << 20 : 512u << 10)

/* Names nested as deep as 1024 characters allow, on half the stack of the cprof thread. */
static void *demangle_hostile(void *arg)
{
    static const char *const pieces[] = {"P",    "I",  "N1a", "K", "F",  "M1a", "DT",
                                         "adL_", "cv", "Z",   "X", "S_", "T_",  "N3abcI"};
    char name[1100];
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        for (int arguments = 0; arguments < 2; arguments++) {
            strcpy(name, arguments ? "_Z1fI" : "_Z1f");
            while (strlen(name) + strlen(pieces[i]) < 1020)
                strcat(name, pieces[i]);
            strcat(name, "i");
            if (!gpu_name(name).text)
                return NULL;
        }
    }
    return arg;
}

START_TEST(demangles_hostile_names_on_a_small_stack)
{
    static char token[1];
    pthread_attr_t attr;
    pthread_t thread;
    void *done = NULL;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    ck_assert_int_eq(pthread_create(&thread, &attr, demangle_hostile, token), 0);
    pthread_join(thread, &done);
    ck_assert_ptr_eq(done, token);
    pthread_attr_destroy(&attr);
}
END_TEST

START_TEST(names_overheads)
{
    ck_text(gpu_overhead_name(0), "Unknown");
    ck_text(gpu_overhead_name(1), "Driver Compiler");
    ck_text(gpu_overhead_name(1 << 16), "Buffer Flush");
    ck_text(gpu_overhead_name(2 << 16), "Instrumentation");
    ck_text(gpu_overhead_name(3 << 16), "Resource");
    ck_text(gpu_overhead_name(4 << 16), "Runtime Triggered Module Loading");
    ck_text(gpu_overhead_name(5 << 16), "Lazy Function Loading");
    ck_text(gpu_overhead_name(6 << 16), "Command Buffer Full");
    ck_text(gpu_overhead_name(7 << 16), "Activity Buffer Request");
    ck_text(gpu_overhead_name(99u << 16), "Unknown");
    ck_text(gpu_overhead_name(2), "Unknown");
}
END_TEST

static const struct {
    uint32_t cbid;
    bool driver;
    const char *raw, *plain;
    bool shown;
    uint8_t effect;
} calls[] = {
    {211, false, "cudaLaunchKernel_v7000", "cudaLaunchKernel", true, EFFECT_KERNEL},
    {214, false, "cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel", true, EFFECT_KERNEL},
    {470, false, "__cudaLaunchKernel_ptsz_v13000", "cudaLaunchKernel", true, EFFECT_KERNEL},
    {430, false, "cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC", true, EFFECT_KERNEL},
    {13, false, "cudaLaunch_v3020", "cudaLaunch", true, EFFECT_KERNEL},
    {273, false, "cudaLaunchHostFunc_v10000", "cudaLaunchHostFunc", true, EFFECT_NONE},
    {311, false, "cudaGraphLaunch_v10000", "cudaGraphLaunch", true, EFFECT_GRAPH},
    {41, false, "cudaMemcpyAsync_v3020", "cudaMemcpyAsync", true, EFFECT_COPY},
    {51, false, "cudaMemsetAsync_v3020", "cudaMemsetAsync", true, EFFECT_COPY},
    {131, false, "cudaStreamSynchronize_v3020", "cudaStreamSynchronize", true, EFFECT_WAIT},
    {147, false, "cudaStreamWaitEvent_v3020", "cudaStreamWaitEvent", true, EFFECT_WAIT},
    {165, false, "cudaDeviceSynchronize_v3020", "cudaDeviceSynchronize", true, EFFECT_WAIT},
    {135, false, "cudaEventRecord_v3020", "cudaEventRecord", true, EFFECT_NONE},
    {20, false, "cudaMalloc_v3020", "cudaMalloc", true, EFFECT_NONE},
    {129, false, "cudaStreamCreate_v3020", "cudaStreamCreate", true, EFFECT_NONE},
    {300, false, "cudaGraphAddMemcpyNode_v10000", "cudaGraphAddMemcpyNode", true, EFFECT_NONE},
    {301, false, "cudaFuncGetAttributes_v3020", "cudaFuncGetAttributes", true, EFFECT_NONE},
    {17, false, "cudaGetDevice_v3020", "cudaGetDevice", false, EFFECT_NONE},
    {302, false, "cudaGetDeviceProperties_v2_v12000", "cudaGetDeviceProperties", false,
     EFFECT_NONE},
    {10, false, "cudaGetLastError_v3020", "cudaGetLastError", false, EFFECT_NONE},
    {134, false, "cudaEventCreateWithFlags_v3020", "cudaEventCreateWithFlags", false, EFFECT_NONE},
    {137, false, "cudaEventQuery_v3020", "cudaEventQuery", false, EFFECT_NONE},
    {317, false, "cudaStreamIsCapturing_v10000", "cudaStreamIsCapturing", false, EFFECT_NONE},
    {318, false, "cudaStreamGetCaptureInfo_ptsz_v10010", "cudaStreamGetCaptureInfo", false,
     EFFECT_NONE},
    {307, true, "cuLaunchKernel", "cuLaunchKernel", true, EFFECT_KERNEL},
    {652, true, "cuLaunchKernelEx_ptsz", "cuLaunchKernelEx", true, EFFECT_KERNEL},
    {115, true, "cuLaunch", "cuLaunch", true, EFFECT_KERNEL},
    {514, true, "cuGraphLaunch", "cuGraphLaunch", true, EFFECT_GRAPH},
    {279, true, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", true, EFFECT_COPY},
    {280, true, "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync", true, EFFECT_COPY},
    {281, true, "cuMemsetD32_v2_ptds", "cuMemsetD32", true, EFFECT_COPY},
    {282, true, "cuCtxSynchronize_v2", "cuCtxSynchronize", true, EFFECT_WAIT},
    {283, true, "cuMemAlloc_v2", "cuMemAlloc", true, EFFECT_NONE},
    {284, true, "cuMemSetAccess", "cuMemSetAccess", true, EFFECT_NONE},
    {285, true, "cuModuleLoadDataEx", "cuModuleLoadDataEx", true, EFFECT_NONE},
    {286, true, "cuLibraryLoadData", "cuLibraryLoadData", true, EFFECT_NONE},
    {287, true, "cuMemGetInfo_v2", "cuMemGetInfo", false, EFFECT_NONE},
    {288, true, "cuCtxGetCurrent", "cuCtxGetCurrent", false, EFFECT_NONE},
    {289, true, "cuKernelGetAttribute", "cuKernelGetAttribute", false, EFFECT_NONE},
    {290, true, "cuStreamQuery", "cuStreamQuery", false, EFFECT_NONE},
    {100000, true, "cuEventRecord", "cuEventRecord", true, EFFECT_NONE}, /* beyond the table */
};

/* Keep this test last: with CK_FORK=no its names fill the table of all tests. */
START_TEST(refuses_names_when_the_table_is_full)
{
    enum { LEN = 60000, ROOM = 64 << 20 };
    char *name = malloc(LEN + 1);
    unsigned kept = 0;
    ck_assert_ptr_nonnull(name);
    memset(name, 'n', LEN);
    name[LEN] = '\0';
    ck_assert_uint_eq(gpu_names_refused(), 0);
    for (; kept < ROOM / LEN + 1 && gpu_names_refused() == 0; kept++) {
        snprintf(name, 12, "%11u", kept);
        name[11] = 'n';
        gpu_name(name);
    }
    ck_assert_uint_gt(kept, ROOM / LEN * 9 / 10);
    ck_assert_uint_le(kept, ROOM / LEN);
    ck_text(gpu_name(name), "(names are full)");
    ck_text(gpu_name(name), "(names are full)");
    ck_assert_uint_eq(gpu_names_refused(), 2);
    ck_assert_uint_eq(gpu_names_refused(), 0);
    snprintf(name, 12, "%11u", 0);
    name[11] = 'n';
    ck_text(gpu_name(name), name);
    free(name);
}
END_TEST

static unsigned asked;

static int callback_name(int domain, uint32_t cbid, const char **name)
{
    asked++;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (calls[i].cbid == cbid && calls[i].driver == (domain == 1)) {
            *name = calls[i].raw;
            return 0;
        }
    }
    return 1;
}

START_TEST(knows_name_and_effect_of_a_call)
{
    const struct gpu_call *call = gpu_call(callback_name, calls[_i].driver, calls[_i].cbid);
    ck_text(call->name, calls[_i].plain);
    ck_assert_int_eq(call->shown, calls[_i].shown);
    ck_assert_uint_eq(call->effect, calls[_i].effect);
}
END_TEST

START_TEST(asks_cupti_once_for_a_call)
{
    asked = 0;
    for (int i = 0; i < 3; i++) {
        ck_text(gpu_call(callback_name, false, 211)->name, "cudaLaunchKernel");
        ck_text(gpu_call(callback_name, true, 307)->name, "cuLaunchKernel");
    }
    ck_assert_uint_eq(asked, 2);
    ck_assert_ptr_null(gpu_call(callback_name, false, 307)->name.text);
    ck_assert_ptr_null(gpu_call(callback_name, true, UINT32_MAX)->name.text);
}
END_TEST

static const char *hooked;

static int hooked_name(int domain, uint32_t cbid, const char **name)
{
    (void)domain, (void)cbid;
    *name = hooked;
    return 0;
}

/* The writer waits for CUPTI's record of every hooked call. */
START_TEST(shows_every_hooked_call)
{
    static const struct {
        const char *name;
        int category;
    } hooks[] = {
#define HOOK(node, symbol, shown, ret, missing, category, ...) {#shown, category},
#include "preload/hooks/hooks.def"
#undef HOOK
    };
    for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
        if (hooks[i].category == CAT_CUDA_RUNTIME || hooks[i].category == CAT_CUDA_DRIVER) {
            bool driver = hooks[i].category == CAT_CUDA_DRIVER;
            hooked = hooks[i].name;
            ck_assert_msg(gpu_call(hooked_name, driver, UINT32_MAX)->shown,
                          "%s is hooked and not shown", hooked);
        }
    }
}
END_TEST

Suite *suite_gpu_names(void)
{
    Suite *suite = suite_create("gpu_names");
    TCase *tcase = tcase_create("gpu_names");
    tcase_add_test(tcase, demangles_kernel_names);
    tcase_add_test(tcase, keeps_each_name_once);
    tcase_add_test(tcase, keeps_20000_names);
    tcase_add_test(tcase, cuts_long_names);
    tcase_add_test(tcase, demangles_hostile_names_on_a_small_stack);
    tcase_add_test(tcase, names_overheads);
    tcase_add_loop_test(tcase, knows_name_and_effect_of_a_call, 0,
                        sizeof(calls) / sizeof(calls[0]));
    tcase_add_test(tcase, asks_cupti_once_for_a_call);
    tcase_add_test(tcase, shows_every_hooked_call);
    tcase_add_test(tcase, refuses_names_when_the_table_is_full);
    suite_add_tcase(suite, tcase);
    return suite;
}
