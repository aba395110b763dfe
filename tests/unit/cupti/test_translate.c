/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/translate.h: a table of records of every kind in every version of CUPTI's struct,
 * and the whole gpu_record that each must become. Garbage follows each record, which shows reads
 * of fields that the version does not have. */
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/devices.h"
#include "cupti/translate.h"

#if __has_include(<cupti_activity.h>)
#include <cupti_activity.h>
#include <cupti_version.h>
#endif
#if defined(CUPTI_API_VERSION) && CUPTI_API_VERSION >= 130000

enum { V11_8 = 18, V12_0 = 18, V12_2 = 20, V12_3 = 21, V12_4 = 22, V12_6 = 24, V12_8 = 26 };
enum { V13_0 = 130000, V13_1 = 130100 };

/* A record, 8-byte aligned as in CUPTI's buffers, followed by garbage. */
static union {
    uint64_t align;
    uint8_t bytes[512];
} room;

static uint64_t plus_5(uint64_t time)
{
    return time + 5;
}

static int call_name(int domain, uint32_t cbid, const char **name)
{
    static const char *const runtime[] = {"cudaLaunchKernel_v7000", "cudaGetDevice_v3020",
                                          "cudaEventRecord_v3020"};
    static const char *const driver[] = {"cuLaunchKernel", "cuCtxGetCurrent", "cuMemAlloc_v2"};
    if (cbid >= 3)
        return 1;
    *name = domain == 1 ? driver[cbid] : runtime[cbid];
    return 0;
}

static void put(const void *record, size_t size)
{
    memset(&room, 0xEE, sizeof(room));
    memcpy(&room, record, size);
}

static struct gpu_record out;

static enum translate_result take(uint32_t version)
{
    struct translate t = {.version = version, .ticks = plus_5, .callback_name = call_name};
    memset(&out, 0x55, sizeof(out));
    return translate(&t, room.bytes, &out);
}

/* ---- records and what becomes of them -------------------------------------------------------- */

/* clang-format off */

/* A struct of CUPTI as an initializer, and its size. */
#define RECORD(real, ...) &(const real){__VA_ARGS__}, sizeof(real)
#define NOWHERE .device = GPU_NONE, .context = GPU_NONE, .stream = GPU_NONE

#define KERNEL                                                                                     \
    .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .registersPerThread = 40, .start = 1000000,     \
    .end = 1003000, .completed = 1003000, .deviceId = 0, .contextId = 1, .streamId = 7,            \
    .gridX = 264, .gridY = 2, .gridZ = 1, .blockX = 128, .blockY = 2, .blockZ = 1,                 \
    .staticSharedMemory = 1000, .dynamicSharedMemory = 24, .correlationId = 42, .gridId = 9,       \
    .name = "_Z6vecaddPf", .graphNodeId = 0x300000001, .graphId = 3, .channelID = 12,              \
    .channelType = (CUpti_ChannelType)1
#ifdef CPROF_NO_DEMANGLE
#define VECADD "_Z6vecaddPf"
#else
#define VECADD "vecadd(float*)"
#endif
/* 528 blocks of 256 threads on 132 SMs: 4 each, all at once. */
#define KERNEL_OUT                                                                                 \
    .kind = GPU_KERNEL, .correlation = 42, .name = VECADD, .start = 1000005, .end = 1003005,       \
    .device = 0, .context = 1, .stream = 7, .graph = 3, .node = 0x300000001,                       \
    .kernel = {.grid = {264, 2, 1}, .block = {128, 2, 1}, .registers = 40, .shared_memory = 1024,  \
               .has_channel = true, .channel = 12, .channel_type = 1, .blocks_per_sm = 4,          \
               .warps_per_sm = 32, .occupancy = 50}
#define MOST         ((double)INT32_MAX)
#define PRIORITY_OUT .kernel.has_priority = true, .kernel.priority = -5

/* Kernel11 (13.1) appends the priority to Kernel10. */
#if CUPTI_API_VERSION >= 130500
#define WITH_PRIORITY(...) RECORD(CUpti_ActivityKernel13, __VA_ARGS__, .priority = -5)
#else
struct kernel_11 {
    CUpti_ActivityKernel10 older;
    int32_t priority;
};
#define WITH_PRIORITY(...)                                                                         \
    &(const struct kernel_11){{__VA_ARGS__}, -5}, sizeof(CUpti_ActivityKernel10) + sizeof(int32_t)
#endif

#define COPY                                                                                       \
    .kind = CUPTI_ACTIVITY_KIND_MEMCPY, .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,               \
    .srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, .dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,  \
    .flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, .bytes = 1ull << 33, .start = 2000, .end = 2500,    \
    .deviceId = 2, .contextId = 4, .streamId = 13, .correlationId = 77,                            \
    .runtimeCorrelationId = 78, .graphNodeId = 0x500000002, .graphId = 5, .channelID = 3,          \
    .channelType = (CUpti_ChannelType)2
#define COPY_OUT                                                                                   \
    .kind = GPU_COPY, .flags = GPU_ASYNC, .correlation = 77,                                       \
    .start = 2005, .end = 2505, .device = 2,           \
    .context = 4, .stream = 13, .graph = 5, .node = 0x500000002,                                   \
    .copy = {.bytes = 1ull << 33, .kind = 1, .from_kind = 1, .to_kind = 3, .has_channel = true,    \
             .channel = 3, .channel_type = 2}

#define PEER_COPY                                                                                  \
    .kind = CUPTI_ACTIVITY_KIND_MEMCPY2, .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP,              \
    .srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, .dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,    \
    .bytes = 4096, .start = 10, .end = 10, .deviceId = 1, .contextId = 2, .streamId = 20,          \
    .srcDeviceId = 1, .srcContextId = 2, .dstDeviceId = 3, .dstContextId = 4, .correlationId = 6,  \
    .channelID = UINT32_MAX
#define PEER_COPY_OUT                                                                              \
    .kind = GPU_COPY, .flags = GPU_PEER, .correlation = 6,                                         \
    .start = 15, .end = 15, .device = 1, .context = 2,   \
    .stream = 20, .copy = {.bytes = 4096, .kind = 10, .from_kind = 3, .to_kind = 3,                \
                           .channel = UINT32_MAX, .peer = {1, 3, 2, 4}}

#define FILL                                                                                       \
    .kind = CUPTI_ACTIVITY_KIND_MEMSET, .value = 0xAB, .bytes = 512, .start = 100, .end = 200,     \
    .deviceId = 0, .contextId = 1, .streamId = 7, .correlationId = 8,                              \
    .flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC, .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,   \
    .graphNodeId = 0x900000001, .graphId = 9, .channelID = 4, .channelType = (CUpti_ChannelType)1
#define FILL_OUT                                                                                   \
    .kind = GPU_FILL, .flags = GPU_ASYNC, .correlation = 8,            \
    .start = 105, .end = 205, .device = 0, .context = 1, .stream = 7, .graph = 9,                  \
    .node = 0x900000001,                                                                           \
    .copy = {.bytes = 512, .to_kind = 5, .has_channel = true, .channel = 4, .channel_type = 1}

#define CALL(api, id)                                                                              \
    .kind = CUPTI_ACTIVITY_KIND_##api, .cbid = (id), .start = 50, .end = 60, .processId = 1,       \
    .threadId = 4242, .correlationId = UINT32_MAX
#define CALL_OUT                                                                                   \
    .kind = GPU_CALL, .correlation = UINT32_MAX, .name = "cudaLaunchKernel", .start = 55,          \
    .end = 65, NOWHERE, .call = {.tid = 4242, .effect = EFFECT_KERNEL}

#define WAIT                                                                                       \
    .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,                                                   \
    .type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, .start = 300, .end = 301,       \
    .correlationId = 31, .contextId = 11, .streamId = 14, .cudaEventId = 5
#define WAIT_OUT                                                                                   \
    .kind = GPU_SYNC, .correlation = 31, .start = 305, .end = 306,    \
    .device = 6, .context = 11, .stream = 14, .sync = {.type = 2, .event = 5}

#define EVENT                                                                                      \
    .kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT, .correlationId = 99, .contextId = 11, .streamId = 7,   \
    .eventId = 3
#define EVENT_OUT                                                                                  \
    .kind = GPU_EVENT, .correlation = 99, .device = 6, .context = 11, .stream = 7, .event = {3, 0}

#define OVERHEAD                                                                                   \
    .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,                                                          \
    .overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL,                                   \
    .objectKind = CUPTI_ACTIVITY_OBJECT_THREAD, .objectId = {.pt = {1, 55}}, .start = 10, .end = 20
#define OVERHEAD_OUT                                                                               \
    .kind = GPU_OVERHEAD, .name = "Command Buffer Full", .start = 15, .end = 25, NOWHERE
#define OVERHEAD_OF(object)                                                                        \
    .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,                                                          \
    .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE,                                        \
    .objectKind = CUPTI_ACTIVITY_OBJECT_##object,                                                  \
    .objectId = {.dcs = {.deviceId = 1, .contextId = 2, .streamId = 3}}, .start = 10, .end = 20
#define OVERHEAD_OF_OUT .kind = GPU_OVERHEAD, .name = "Resource", .start = 15, .end = 25

#define POOL(type)                                                                                 \
    .memoryPoolConfig = {.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_##type,                 \
                         .address = 0x5000, .pool.size = 1 << 25, .utilizedSize = 1 << 21}
#define MEMORY                                                                                     \
    .kind = CUPTI_ACTIVITY_KIND_MEMORY2,                                                           \
    .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,                        \
    .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, .correlationId = 70,                          \
    .address = 0x7f0000000000, .bytes = 1 << 20, .timestamp = 900, .processId = 1, .deviceId = 1,  \
    .contextId = 2, .streamId = 8, .isAsync = 1, POOL(LOCAL)
/* contextId: CUPTI_INVALID_CONTEXT_ID of 13.5. */
#define RELEASE                                                                                    \
    MEMORY, .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, .isAsync = 0,     \
    .contextId = 0
#define MEMORY_OUT                                                                                 \
    .kind = GPU_MEMORY, .flags = GPU_ASYNC, .correlation = 70, .start = 905, .end = 905,           \
    .device = 1, .context = 2, .stream = 8,                                                        \
    .memory = {0x7f0000000000, 1 << 20, .kind = 3, .pool = 0x5000, .pool_used = 1 << 21,           \
               .pool_size = 1 << 25}
#define RELEASE_OUT                                                                                \
    MEMORY_OUT, .flags = GPU_RELEASE, .context = GPU_NONE, .stream = GPU_NONE,                     \
    .memory.pool_used = 0, .memory.pool_size = 0

#define GRAPH                                                                                      \
    .kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE, .correlationId = 12, .start = 40, .end = 90,          \
    .deviceId = 1, .graphId = 21, .contextId = 2, .streamId = 7
#define GRAPH_OUT                                                                                  \
    .kind = GPU_GRAPH, .correlation = 12, .start = 45, .end = 95,         \
    .device = 1, .context = 2, .stream = 7, .graph = 21

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* a row changes fields of a macro above */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const struct row {
    const char *name;
    uint32_t version;
    const void *record;
    size_t size;
    struct gpu_record want;
    enum translate_result result;
    bool has_data; /* CUPTI allocated data for the record */
} rows[] = {
    {"kernel of 11.8", V11_8, RECORD(CUpti_ActivityKernel8, KERNEL), {KERNEL_OUT}},
    {"kernel of 12.0", V12_0, RECORD(CUpti_ActivityKernel9, KERNEL), {KERNEL_OUT}},
    {"kernel of 12.4", V12_4, RECORD(CUpti_ActivityKernel9, KERNEL), {KERNEL_OUT}},
    {"kernel of 12.6", V12_6, RECORD(CUpti_ActivityKernel9, KERNEL), {KERNEL_OUT}},
    {"kernel of 12.8", V12_8, RECORD(CUpti_ActivityKernel9, KERNEL), {KERNEL_OUT}},
    {"kernel of 12.9", 28, RECORD(CUpti_ActivityKernel9, KERNEL), {KERNEL_OUT}},
    {"kernel of 13.0", V13_0, RECORD(CUpti_ActivityKernel10, KERNEL), {KERNEL_OUT}},
    {"kernel of 13.0.1", 130001, RECORD(CUpti_ActivityKernel10, KERNEL), {KERNEL_OUT}},
    {"kernel of 13.1", V13_1, WITH_PRIORITY(KERNEL), {KERNEL_OUT, PRIORITY_OUT}},
    {"kernel of 13.5", 130500, WITH_PRIORITY(KERNEL), {KERNEL_OUT, PRIORITY_OUT}},
    {"kernel of a later CUPTI", 999999, WITH_PRIORITY(KERNEL), {KERNEL_OUT, PRIORITY_OUT}},
    {"kernel without name and channel, queued after its start", V12_0,
     RECORD(CUpti_ActivityKernel9, KERNEL, .name = NULL, .channelID = UINT32_MAX,
            .queued = 2000000),
     {KERNEL_OUT, .name = "(unnamed kernel)", .kernel.has_channel = false,
      .kernel.channel = UINT32_MAX}},
    {"kernel of an unknown device", V12_0, RECORD(CUpti_ActivityKernel9, KERNEL, .deviceId = 3),
     {KERNEL_OUT, .device = 3, .kernel.occupancy = -1, .kernel.blocks_per_sm = -1,
      .kernel.warps_per_sm = -1}},
    {"kernel with an impossible grid and shared memory, limited by its registers", V12_0,
     RECORD(CUpti_ActivityKernel9, KERNEL, .gridX = INT32_MAX, .gridY = INT32_MAX,
            .gridZ = INT32_MAX, .staticSharedMemory = INT32_MIN, .dynamicSharedMemory = INT32_MIN),
     {KERNEL_OUT, .kernel.grid = {INT32_MAX, INT32_MAX, INT32_MAX}, .kernel.shared_memory = 0,
      .kernel.blocks_per_sm = (float)(MOST * MOST * MOST / 132),
      .kernel.warps_per_sm = (float)(MOST * MOST * MOST / 132 * 8),
      .kernel.occupancy = 75}},
    {"kernel with an impossible block", V12_0,
     RECORD(CUpti_ActivityKernel9, KERNEL, .blockX = INT32_MAX, .blockY = INT32_MAX,
            .blockZ = INT32_MAX),
     {KERNEL_OUT, .kernel.block = {INT32_MAX, INT32_MAX, INT32_MAX}, .kernel.occupancy = -1,
      .kernel.blocks_per_sm = -1, .kernel.warps_per_sm = -1}},
    {"kernel with a block of no threads", V12_0, RECORD(CUpti_ActivityKernel9, KERNEL, .blockX = 0),
     {KERNEL_OUT, .kernel.block[0] = 0, .kernel.occupancy = -1, .kernel.blocks_per_sm = -1,
      .kernel.warps_per_sm = -1}},

    {"copy of 11.8", V11_8, RECORD(CUpti_ActivityMemcpy5, COPY), {COPY_OUT}},
    {"copy of 12.0", V12_0, RECORD(CUpti_ActivityMemcpy5, COPY), {COPY_OUT}},
    {"copy of 12.4", V12_4, RECORD(CUpti_ActivityMemcpy5, COPY), {COPY_OUT}},
    {"copy of 12.6", V12_6, RECORD(CUpti_ActivityMemcpy5, COPY), {COPY_OUT}},
    {"copy of 12.8", V12_8, RECORD(CUpti_ActivityMemcpy6, COPY), {COPY_OUT}},
    {"copy of 13.0", V13_0, RECORD(CUpti_ActivityMemcpy6, COPY), {COPY_OUT}},
    {"copy of 13.1", V13_1, RECORD(CUpti_ActivityMemcpy6, COPY), {COPY_OUT}},
    {"copy of a later CUPTI", 999999, RECORD(CUpti_ActivityMemcpy6, COPY), {COPY_OUT}},
    {"copy between devices", V12_8, RECORD(CUpti_ActivityMemcpyPtoP4, PEER_COPY), {PEER_COPY_OUT}},
    {"fill", V11_8, RECORD(CUpti_ActivityMemset4, FILL), {FILL_OUT}},
    {"fill of an invalid kind whose low byte is 3", V11_8,
     RECORD(CUpti_ActivityMemset4, FILL, .memoryKind = 0x103),
     {FILL_OUT, .copy.to_kind = 0}},

    {"runtime call", V12_4, RECORD(CUpti_ActivityAPI, CALL(RUNTIME, 0)), {CALL_OUT}},
    {"failed call", V12_4, RECORD(CUpti_ActivityAPI, CALL(RUNTIME, 0), .returnValue = 2),
     {CALL_OUT, .flags = GPU_FAILED}},
    {"driver call", V12_4, RECORD(CUpti_ActivityAPI, CALL(DRIVER, 2)),
     {CALL_OUT, .flags = GPU_DRIVER, .name = "cuMemAlloc", .call.cbid = 2,
      .call.effect = EFFECT_NONE}},
    {"runtime call that traces do not show", V12_4, RECORD(CUpti_ActivityAPI, CALL(RUNTIME, 1)),
     .result = TRANSLATE_SKIPPED},
    {"driver call that traces do not show, without a time", V12_4,
     RECORD(CUpti_ActivityAPI, CALL(DRIVER, 1), .start = 0, .end = 0),
     .result = TRANSLATE_SKIPPED},
    {"call of a newer driver than CUPTI", V12_4, RECORD(CUpti_ActivityAPI, CALL(DRIVER, 77)),
     .result = TRANSLATE_SKIPPED},

    {"wait of 11.8", V11_8, RECORD(CUpti_ActivitySynchronization, WAIT), {WAIT_OUT}},
    {"wait of 12.0", V12_0, RECORD(CUpti_ActivitySynchronization, WAIT), {WAIT_OUT}},
    {"wait of 12.4", V12_4, RECORD(CUpti_ActivitySynchronization, WAIT), {WAIT_OUT}},
    {"wait of 12.6", V12_6, RECORD(CUpti_ActivitySynchronization, WAIT), {WAIT_OUT}},
    {"wait of 12.8, which names the recording", V12_8,
     RECORD(CUpti_ActivitySynchronization2, WAIT, .cudaEventSyncId = 1ull << 40,
            .returnValue = 600),
     {WAIT_OUT, .sync.event_sync = 1ull << 40, .sync.result = 600}},
    {"wait for an unknown context", V13_0,
     RECORD(CUpti_ActivitySynchronization2, WAIT,
            .type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, .contextId = 12,
            .streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
            .cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
            .cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE, .returnValue = 600),
     {WAIT_OUT, .device = GPU_NONE, .context = 12, .stream = GPU_NONE,
      .sync = {.type = 4, .event = GPU_NONE, .result = 600}}},

    {"event of 12.6", V12_6, RECORD(CUpti_ActivityCudaEvent, EVENT), {EVENT_OUT}},
    {"event of 12.8, which names the recording", V12_8,
     RECORD(CUpti_ActivityCudaEvent2, EVENT, .deviceId = 2, .cudaEventSyncId = 123456789012),
     {EVENT_OUT, .device = 2, .event.event_sync = 123456789012}},
    {"event with a time", V13_1,
     RECORD(CUpti_ActivityCudaEvent2, EVENT, .deviceId = 2, .cudaEventSyncId = 123456789012,
            .deviceTimestamp = 1000),
     {EVENT_OUT, .device = 2, .event.event_sync = 123456789012, .start = 1005, .end = 1005}},
#if CUPTI_API_VERSION >= 130500
    {"event of a graph", 130500,
     RECORD(CUpti_ActivityCudaEvent3, EVENT, .graphId = 4, .graphNodeId = 0x400000007),
     {EVENT_OUT, .device = 0, .graph = 4, .node = 0x400000007}},
#endif

    /* Before 12.4 the record names no thread. */
    {"overhead of 12.2", V12_2, RECORD(CUpti_ActivityOverhead, OVERHEAD), {OVERHEAD_OUT}},
    {"overhead of 12.3", V12_3, RECORD(CUpti_ActivityOverhead2, OVERHEAD, .correlationId = 17),
     {OVERHEAD_OUT, .correlation = 17}},
    /* The leak sanitizer checks that the data is freed, even if the record is useless. */
    {"overhead of 12.4", V12_4, RECORD(CUpti_ActivityOverhead3, OVERHEAD),
     {OVERHEAD_OUT, .overhead.tid = 55}, .has_data = true},
    {"overhead without an end", V12_4, RECORD(CUpti_ActivityOverhead3, OVERHEAD, .end = 0),
     .result = TRANSLATE_UNFINISHED, .has_data = true},
    {"overhead that ends before its start", V12_4,
     RECORD(CUpti_ActivityOverhead3, OVERHEAD, .end = 5), .result = TRANSLATE_INVALID,
     .has_data = true},
    {"overhead of a stream", V12_4, RECORD(CUpti_ActivityOverhead3, OVERHEAD_OF(STREAM)),
     {OVERHEAD_OF_OUT, .device = 1, .context = 2, .stream = 3}},
    {"overhead of a context", V12_4, RECORD(CUpti_ActivityOverhead3, OVERHEAD_OF(CONTEXT)),
     {OVERHEAD_OF_OUT, .device = 1, .context = 2, .stream = GPU_NONE}},
    {"overhead of a device", V12_4, RECORD(CUpti_ActivityOverhead3, OVERHEAD_OF(DEVICE)),
     {OVERHEAD_OF_OUT, .device = 1, .context = GPU_NONE, .stream = GPU_NONE}},

    {"allocation of 11.8", V11_8, RECORD(CUpti_ActivityMemory3, MEMORY), {MEMORY_OUT}},
    {"allocation of 12.6", V12_6, RECORD(CUpti_ActivityMemory4, MEMORY), {MEMORY_OUT}},
    /* In place of the size, an imported pool has a process id. */
    {"release into an imported pool", V13_0, RECORD(CUpti_ActivityMemory4, RELEASE, POOL(IMPORTED)),
     {RELEASE_OUT}},
    {"release into no pool", V13_0, RECORD(CUpti_ActivityMemory4, RELEASE, POOL(INVALID)),
     {RELEASE_OUT, .memory.pool = 0}},
    {"release without a time", V13_0,
     RECORD(CUpti_ActivityMemory4, RELEASE, POOL(INVALID), .timestamp = 0),
     .result = TRANSLATE_UNTIMED},
    {"memory operation of an unknown kind", V13_0,
     RECORD(CUpti_ActivityMemory4, RELEASE, POOL(INVALID), .timestamp = 0,
            .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_INVALID),
     .result = TRANSLATE_INVALID},
    {"memory pool", V11_8,
     RECORD(CUpti_ActivityMemoryPool2, .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL),
     .result = TRANSLATE_TAKEN},

    {"graph", V12_0, RECORD(CUpti_ActivityGraphTrace, GRAPH), {GRAPH_OUT}},
    {"graph of an unknown device and context", V12_4,
     RECORD(CUpti_ActivityGraphTrace, GRAPH, .deviceId = INT_MAX, .contextId = INT_MAX),
     {GRAPH_OUT, .device = GPU_NONE, .context = GPU_NONE}},
};
#pragma GCC diagnostic pop

/* Device 0 is an H200. */
static const CUpti_ActivityDevice4 h200 = {
    .kind = CUPTI_ACTIVITY_KIND_DEVICE, .name = "NVIDIA H200", .isCudaVisible = 1,
    .computeCapabilityMajor = 9, .numMultiprocessors = 132, .numThreadsPerWarp = 32,
    .maxWarpsPerMultiprocessor = 64, .maxBlocksPerMultiprocessor = 32,
    .maxSharedMemoryPerMultiprocessor = 233472, .maxRegistersPerMultiprocessor = 65536};

static const CUpti_ActivityContext context_11 = {
    .kind = CUPTI_ACTIVITY_KIND_CONTEXT, .contextId = 11, .deviceId = 6};

/* clang-format on */

static void setup(void)
{
    gpu_devices_forget();
    put(&h200, sizeof(h200));
    ck_assert_int_eq(take(V11_8), TRANSLATE_TAKEN);
    ck_assert_str_eq(gpu_device_name(0), "NVIDIA H200");
    put(&context_11, sizeof(context_11));
    ck_assert_int_eq(take(V11_8), TRANSLATE_TAKEN);
    ck_assert_uint_eq(gpu_device_of(11), 6);
}

/* Fails for the row unless a field has the value that it wants. */
#define SAME(field)                                                                                \
    ck_assert_msg(out.field == want->field, "%s: " #field " is %.17g, not %.17g", row->name,       \
                  (double)out.field, (double)want->field)

static void check_text(const struct row *row)
{
    size_t len = row->want.name ? strlen(row->want.name) : 0;
    bool same = !out.name == !row->want.name && out.name_len == len &&
                (len == 0 || memcmp(out.name, row->want.name, len) == 0);
    ck_assert_msg(same, "%s: the name is %.*s, not %s", row->name, out.name ? out.name_len : 0,
                  out.name, row->want.name ? row->want.name : "missing");
}

static void check_kernel(const struct row *row, const struct gpu_record *want)
{
    for (int i = 0; i < 3; i++) {
        SAME(kernel.grid[i]);
        SAME(kernel.block[i]);
    }
    SAME(kernel.registers);
    SAME(kernel.shared_memory);
    SAME(kernel.channel);
    SAME(kernel.channel_type);
    SAME(kernel.priority);
    SAME(kernel.blocks_per_sm);
    SAME(kernel.warps_per_sm);
    SAME(kernel.occupancy);
    SAME(kernel.has_channel);
    SAME(kernel.has_priority);
    SAME(kernel.queued_ns);
    /* The record also identifies the context's device. */
    ck_assert_msg(gpu_device_of(want->context) == want->device, "%s: context", row->name);
}

static void check_copy(const struct row *row, const struct gpu_record *want)
{
    SAME(copy.bytes);
    SAME(copy.kind);
    SAME(copy.from_kind);
    SAME(copy.to_kind);
    SAME(copy.has_channel);
    SAME(copy.channel);
    SAME(copy.channel_type);
    SAME(copy.peer.from_device);
    SAME(copy.peer.to_device);
    SAME(copy.peer.from_context);
    SAME(copy.peer.to_context);
}

static void check_memory(const struct row *row, const struct gpu_record *want)
{
    SAME(memory.address);
    SAME(memory.bytes);
    SAME(memory.kind);
    SAME(memory.tid);
    SAME(memory.pool);
    SAME(memory.pool_used);
    SAME(memory.pool_size);
}

/* The fields of a kind. */
static void check_kind(const struct row *row, const struct gpu_record *want)
{
    switch (want->kind) {
    case GPU_KERNEL:
        check_kernel(row, want);
        break;
    case GPU_COPY:
    case GPU_FILL:
        check_copy(row, want);
        break;
    case GPU_CALL:
        SAME(call.tid);
        SAME(call.cbid);
        SAME(call.effect);
        break;
    case GPU_SYNC:
        SAME(sync.type);
        SAME(sync.event);
        SAME(sync.event_sync);
        SAME(sync.result);
        break;
    case GPU_EVENT:
        SAME(event.event);
        SAME(event.event_sync);
        break;
    case GPU_OVERHEAD:
        SAME(overhead.tid);
        break;
    case GPU_MEMORY:
        check_memory(row, want);
        break;
    default:
        break;
    }
}

START_TEST(translates_a_record)
{
    const struct row *row = &rows[_i];
    const struct gpu_record *want = &row->want;
    put(row->record, row->size);
    if (row->has_data) {
        void *data = malloc(sizeof(CUpti_ActivityOverheadCommandBufferFullData));
        memcpy(room.bytes + offsetof(CUpti_ActivityOverhead3, overheadData), &data, sizeof(data));
    }
    enum translate_result result = take(row->version);
    memset(&room, 0, sizeof(room)); /* the leak sanitizer must not find the data here */
    ck_assert_msg(result == row->result, "%s: result %d, not %d", row->name, result, row->result);
    if (row->result != TRANSLATE_RECORD)
        return;
    SAME(kind);
    SAME(flags);
    SAME(correlation);
    SAME(start);
    SAME(end);
    SAME(device);
    SAME(context);
    SAME(stream);
    SAME(graph);
    SAME(node);
    check_text(row);
    check_kind(row, want);
}
END_TEST

/* ---- times, unknown kinds -------------------------------------------------------------------- */

static const struct {
    uint32_t kind;
    size_t start, end; /* offsets */
    const char *name;
} timed[] = {
#define TIMED(kind, real)                                                                          \
    CUPTI_ACTIVITY_KIND_##kind, offsetof(real, start), offsetof(real, end), #kind
    {TIMED(CONCURRENT_KERNEL, CUpti_ActivityKernel9)},
    {TIMED(MEMCPY, CUpti_ActivityMemcpy5)},
    {TIMED(MEMCPY2, CUpti_ActivityMemcpyPtoP4)},
    {TIMED(MEMSET, CUpti_ActivityMemset4)},
    {TIMED(RUNTIME, CUpti_ActivityAPI)},
    {TIMED(DRIVER, CUpti_ActivityAPI)},
    {TIMED(SYNCHRONIZATION, CUpti_ActivitySynchronization)},
    {TIMED(OVERHEAD, CUpti_ActivityOverhead3)},
    {TIMED(GRAPH_TRACE, CUpti_ActivityGraphTrace)},
};

START_TEST(checks_start_and_end)
{
    static const struct {
        uint64_t start, end;
        enum translate_result result;
    } cases[] = {
        {0, 0, TRANSLATE_UNTIMED}, {7, 0, TRANSLATE_UNFINISHED},
        {8, 7, TRANSLATE_INVALID}, {0, 7, TRANSLATE_INVALID},
        {7, 7, TRANSLATE_RECORD},  {1, UINT64_MAX - 9, TRANSLATE_RECORD},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t start = cases[i].start, end = cases[i].end;
        memset(&room, 0xEE, sizeof(room));
        memset(&room, 0, 300);
        memcpy(room.bytes, &timed[_i].kind, sizeof(timed[_i].kind));
        memcpy(room.bytes + timed[_i].start, &start, 8);
        memcpy(room.bytes + timed[_i].end, &end, 8);
        enum translate_result result = take(V13_0);
        bool same = result == cases[i].result &&
                    (result != TRANSLATE_RECORD || (out.start == start + 5 && out.end == end + 5));
        ck_assert_msg(same, "%s from %lu to %lu: result %d, from %lu to %lu", timed[_i].name,
                      (unsigned long)start, (unsigned long)end, result, (unsigned long)out.start,
                      (unsigned long)out.end);
    }
}
END_TEST

static uint64_t backwards(uint64_t time)
{
    return 1000 - time;
}

START_TEST(no_record_ends_before_its_start_if_the_clock_maps_backwards)
{
    CUpti_ActivityMemcpy5 copy = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY, .start = 10, .end = 20};
    struct translate t = {.version = V12_0, .ticks = backwards, .callback_name = call_name};
    ck_assert_int_eq(translate(&t, &copy, &out), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.start, 990);
    ck_assert_uint_eq(out.end, 990);
}
END_TEST

START_TEST(gives_the_time_in_the_queue_in_nanoseconds)
{
    clock_start();
    CUpti_ActivityKernel9 kernel = {KERNEL, .queued = 1000000 - 1000};
    put(&kernel, sizeof(kernel));
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    uint64_t ns = (uint64_t)(1000 * 1e9 / clock_ticks_per_second());
    ck_assert(out.kernel.queued_ns + 1 >= ns && out.kernel.queued_ns <= ns + 1);
}
END_TEST

START_TEST(rejects_unknown_kinds)
{
    for (uint32_t kind = 0; kind < 200; kind++) {
        switch (kind) {
#define KIND(id, number, when, translator) case number:
#include "cupti/kinds.def"
#undef KIND
            break;
        default:
            memset(&room, 0, sizeof(room));
            memcpy(room.bytes, &kind, sizeof(kind));
            ck_assert_msg(take(999999) == TRANSLATE_INVALID, "kind %u", kind);
        }
    }
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, translates_a_record, 0, sizeof(rows) / sizeof(rows[0]));
    tcase_add_loop_test(tcase, checks_start_and_end, 0, sizeof(timed) / sizeof(timed[0]));
    tcase_add_test(tcase, no_record_ends_before_its_start_if_the_clock_maps_backwards);
    tcase_add_test(tcase, gives_the_time_in_the_queue_in_nanoseconds);
    tcase_add_test(tcase, rejects_unknown_kinds);
}

#else /* no headers of CUDA 13 */

START_TEST(skipped)
{
    fprintf(stderr, "translate: skipped, no CUPTI headers of CUDA 13 or newer\n");
}
END_TEST
static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, skipped);
}

#endif

Suite *suite_translate(void)
{
    Suite *suite = suite_create("translate");
    TCase *tcase = tcase_create("translate");
    add_tests(tcase);
    suite_add_tcase(suite, tcase);
    return suite;
}
