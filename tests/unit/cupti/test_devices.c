/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/devices.h: a GPU's properties as JSON, and the occupancy, compared with the
 * CUDA toolkit's own calculation if its header is installed. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/devices.h"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#define HAVE_OCCUPANCY 1
#endif

struct gpu {
    const char *name;
    uint32_t major, minor, sms, warps, blocks, shared;
    uint32_t opt_in; /* most shared memory of a block with opt-in, from the CUDA documentation */
};

static const struct gpu gpus[] = {
    {"NVIDIA H200", 9, 0, 132, 64, 32, 233472, 232448},
    {"NVIDIA A100-SXM4-80GB", 8, 0, 108, 64, 32, 167936, 166912},
    {"NVIDIA L4", 8, 9, 58, 48, 24, 102400, 101376},
    {"Tesla V100", 7, 0, 80, 64, 32, 98304, 98304},
    {"Tesla T4", 7, 5, 40, 32, 16, 65536, 65536},
    {"Tesla P100", 6, 0, 56, 64, 32, 65536, 49152},
    {"NVIDIA B200", 10, 0, 148, 64, 32, 233472, 232448},
    {"NVIDIA RTX PRO 6000", 12, 0, 188, 48, 24, 102400, 101376},
};
enum { GPUS = sizeof(gpus) / sizeof(gpus[0]) };

static struct cupti_device device_of(uint32_t id, const struct gpu *gpu)
{
    return (struct cupti_device){
        .id = id,
        .name = gpu->name,
        .is_visible = 1,
        .memory = 150754820096,
        .major = gpu->major,
        .minor = gpu->minor,
        .sms = gpu->sms,
        .warp_size = 32,
        .warps_per_sm = gpu->warps,
        .blocks_per_sm = gpu->blocks,
        .shared_per_sm = gpu->shared,
        .shared_per_block = 49152,
        .registers_per_sm = 65536,
        .registers_per_block = 65536,
        .threads_per_block = 1024,
    };
}

static void learn(uint32_t id, const struct gpu *gpu)
{
    struct cupti_device d = device_of(id, gpu);
    gpu_device_learn(&d);
}

START_TEST(writes_device_properties_as_json)
{
    gpu_devices_forget();
    ck_assert_str_eq(gpu_devices_json(), "[]");
    ck_assert_ptr_null(gpu_device_name(0));
    ck_assert_ptr_null(gpu_device_name(UINT32_MAX));
    learn(0, &gpus[0]);
    ck_assert_str_eq(gpu_device_name(0), "NVIDIA H200");
    ck_assert_str_eq(
        gpu_devices_json(),
        "[\n  {\"id\": 0, \"name\": \"NVIDIA H200\", \"totalGlobalMem\": 150754820096, "
        "\"computeMajor\": 9, \"computeMinor\": 0, \"maxThreadsPerBlock\": 1024, "
        "\"maxThreadsPerMultiprocessor\": 2048, \"regsPerBlock\": 65536, \"warpSize\": 32, "
        "\"sharedMemPerBlock\": 49152, \"numSms\": 132, \"regsPerMultiprocessor\": 65536, "
        "\"sharedMemPerBlockOptin\": 232448, \"sharedMemPerMultiprocessor\": 233472}\n]");
    learn(3, &(struct gpu){.name = "odd \"name\"\\\n\xc3\xa9"});
    ck_assert_str_eq(gpu_device_name(3), "odd ?name?????");
    ck_assert_ptr_nonnull(
        strstr(gpu_devices_json(), "},\n  {\"id\": 3, \"name\": \"odd ?name?????\""));
    ck_assert_ptr_null(gpu_device_name(1));
    learn(4, &(struct gpu){.name = NULL});
    ck_assert_str_eq(gpu_device_name(4), "GPU");
}
END_TEST

START_TEST(ignores_hidden_devices_and_large_ids)
{
    gpu_devices_forget();
    learn(0, &gpus[0]);
    /* A device hidden by CUDA_VISIBLE_DEVICES must not replace a visible one. */
    struct cupti_device hidden = device_of(0, &gpus[1]);
    hidden.is_visible = 0;
    gpu_device_learn(&hidden);
    ck_assert_str_eq(gpu_device_name(0), "NVIDIA H200");
    /* one device more than the table holds */
    learn(127, &gpus[1]);
    learn(128, &gpus[1]);
    ck_assert_str_eq(gpu_device_name(127), "NVIDIA A100-SXM4-80GB");
    ck_assert_ptr_null(gpu_device_name(128));
}
END_TEST

/* The JSON lists as many devices as fit into the 16 KB head of a file, and is complete, even if
 * each field has its longest value. */
START_TEST(devices_json_fits_the_head_of_a_file)
{
    static char name[300];
    memset(name, 'n', sizeof(name) - 1);
    gpu_devices_forget();
    for (uint32_t id = 0; id < 200; id++) {
        struct cupti_device d;
        memset(&d, 0xff, sizeof(d));
        d.id = id;
        d.name = name;
        gpu_device_learn(&d);
    }
    const char *json = gpu_devices_json();
    ck_assert_str_eq(json + strlen(json) - 3, "}\n]");
    ck_assert_ptr_nonnull(strstr(json, "{\"id\": 17, "));
    ck_assert_uint_lt(strlen(json), 13 << 10);
}
END_TEST

START_TEST(finds_the_device_of_a_context)
{
    gpu_devices_forget();
    gpu_context_learn(1, 3);
    gpu_context_learn(7, 0);
    ck_assert_uint_eq(gpu_device_of(1), 3);
    ck_assert_uint_eq(gpu_device_of(7), 0);
    ck_assert_uint_eq(gpu_device_of(2), GPU_NONE);
    ck_assert_uint_eq(gpu_device_of(0), GPU_NONE);
    ck_assert_uint_eq(gpu_device_of(UINT32_MAX), GPU_NONE);
    gpu_context_learn(1 + 1024, 5);
    ck_assert_uint_eq(gpu_device_of(1), GPU_NONE);
    ck_assert_uint_eq(gpu_device_of(1 + 1024), 5);
}
END_TEST

static struct cupti_kernel launch(int32_t blocks, int32_t threads)
{
    return (struct cupti_kernel){.grid = {blocks, 1, 1}, .block = {threads, 1, 1}};
}

START_TEST(gives_the_occupancy_of_extreme_launches)
{
    struct gpu_record out;
    gpu_devices_forget();
    learn(0, &gpus[0]);

    struct cupti_kernel k = launch(66, 1024); /* half of the SMs run a block */
    gpu_occupancy(&k, &out);
    ck_assert_float_eq_tol(out.kernel.blocks_per_sm, 0.5, 1e-6);
    ck_assert_float_eq_tol(out.kernel.warps_per_sm, 16, 1e-6);
    ck_assert_int_eq(out.kernel.occupancy, 25);

    k = launch(INT32_MAX, 1024);
    k.grid[1] = k.grid[2] = INT32_MAX;
    k.static_shared = k.dynamic_shared = INT32_MIN;
    gpu_occupancy(&k, &out);
    ck_assert_int_eq(out.kernel.occupancy, 100);

    /* more shared memory than the SM has: the kernel ran, so one block fitted */
    k = launch(1 << 20, 128);
    k.dynamic_shared = INT32_MAX;
    gpu_occupancy(&k, &out);
    ck_assert_int_eq(out.kernel.occupancy, 6);

    static const int32_t sizes[] = {0, -1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        k = launch(1, sizes[i]);
        gpu_occupancy(&k, &out);
        ck_assert_int_eq(out.kernel.occupancy, -1);
    }
    k = launch(1, 32);
    k.device = 1;
    gpu_occupancy(&k, &out);
    ck_assert_int_eq(out.kernel.occupancy, -1);
    learn(1, &(struct gpu){.name = "empty"});
    gpu_occupancy(&k, &out);
    ck_assert_int_eq(out.kernel.occupancy, -1);
}
END_TEST

#ifdef HAVE_OCCUPANCY
/* Compares with the toolkit's own calculation, for random launches on each generation. */
START_TEST(occupancy)
{
    const struct gpu *gpu = &gpus[_i];
    gpu_devices_forget();
    learn(0, gpu);
    char opt_in[64];
    snprintf(opt_in, sizeof(opt_in), "\"sharedMemPerBlockOptin\": %u,", gpu->opt_in);
    ck_assert_ptr_nonnull(strstr(gpu_devices_json(), opt_in));
    struct cudaOccDeviceProp d = {
        .computeMajor = (int)gpu->major,
        .computeMinor = (int)gpu->minor,
        .maxThreadsPerBlock = 1024,
        .maxThreadsPerMultiprocessor = (int)gpu->warps * 32,
        .regsPerBlock = 65536,
        .regsPerMultiprocessor = 65536,
        .warpSize = 32,
        .sharedMemPerBlock = 49152,
        .sharedMemPerMultiprocessor = gpu->shared,
        .numSms = (int)gpu->sms,
        .sharedMemPerBlockOptin = gpu->opt_in,
        .reservedSharedMemPerBlock = gpu->major >= 8 ? 1024 : 0,
    };
    struct cudaOccDeviceState state;
    memset(&state, 0, sizeof(state));
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    unsigned seed = 1, compared = 0;
    for (int i = 0; i < 20000; i++) {
        struct cudaOccFuncAttributes f;
        memset(&f, 0, sizeof(f));
        f.maxThreadsPerBlock = INT_MAX;
        f.numRegs = rand_r(&seed) % 256;
        f.sharedSizeBytes = (size_t)rand_r(&seed) % 49152;
        f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        f.maxDynamicSharedSizeBytes = gpu->opt_in - f.sharedSizeBytes;
        size_t dynamic = rand_r(&seed) % 3 == 0 ? (size_t)rand_r(&seed) % gpu->opt_in : 0;
        int threads = 1 + rand_r(&seed) % 1024;
        struct cudaOccResult theirs;
        cudaOccError error =
            cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &d, &f, &state, threads, dynamic);
        if (error == CUDA_OCC_ERROR_UNKNOWN_DEVICE)
            return; /* the headers are older than this generation */
        if (error != CUDA_OCC_SUCCESS || theirs.activeBlocksPerMultiprocessor == 0)
            continue; /* such a launch is impossible */
        struct cupti_kernel k = launch(1 << 20, threads);
        k.registers = (uint16_t)f.numRegs;
        k.static_shared = (int32_t)f.sharedSizeBytes;
        k.dynamic_shared = (int32_t)dynamic;
        struct gpu_record out;
        gpu_occupancy(&k, &out);
        double percent =
            100.0 * theirs.activeBlocksPerMultiprocessor * threads / d.maxThreadsPerMultiprocessor;
        ck_assert_int_eq(out.kernel.occupancy, (int)(percent + 0.5));
        compared++;
    }
    ck_assert_uint_gt(compared, 5000);
}
END_TEST
#endif

Suite *suite_devices(void)
{
    Suite *suite = suite_create("devices");
    TCase *tcase = tcase_create("devices");
    tcase_add_test(tcase, writes_device_properties_as_json);
    tcase_add_test(tcase, ignores_hidden_devices_and_large_ids);
    tcase_add_test(tcase, devices_json_fits_the_head_of_a_file);
    tcase_add_test(tcase, finds_the_device_of_a_context);
    tcase_add_test(tcase, gives_the_occupancy_of_extreme_launches);
#ifdef HAVE_OCCUPANCY
    tcase_add_loop_test(tcase, occupancy, 0, GPUS);
#endif
    suite_add_tcase(suite, tcase);
    return suite;
}
