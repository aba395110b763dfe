/* SPDX-License-Identifier: Apache-2.0 */
/* cupti/records.h against the real CUPTI headers: each field that cprof reads must have its
 * offset in each version of the struct. The compiler checks this table and names the row and the
 * field that differ. The headers determine which versions exist. */
#include <check.h>
#include <stddef.h>
#include <stdio.h>

#include "cupti/records.h"

#if __has_include(<cupti.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cupti_activity.h>
#include <cupti_version.h>
#pragma GCC diagnostic pop

/* clang-format off */

/* A field of the struct `view` of records.h and the field of the struct `real` of CUPTI. */
#define SAME(ours, theirs)                                                                         \
    _Static_assert(offsetof(view, ours) == offsetof(real, theirs) &&                               \
                       sizeof(((view *)0)->ours) == sizeof(((real *)0)->theirs),                   \
                   #ours " is " #theirs);
/* The first of three int32_t that CUPTI declares separately. */
#define AT(ours, theirs)                                                                           \
    _Static_assert(offsetof(view, ours) == offsetof(real, theirs), #ours " is " #theirs);
#define SIZE(real, bytes) _Static_assert(sizeof(real) == (bytes), #real " has " #bytes " bytes");

#define KERNEL                                                                                     \
    SAME(kind, kind) SAME(registers, registersPerThread) SAME(start, start) SAME(end, end)         \
    SAME(completed, completed) SAME(device, deviceId) SAME(context, contextId)                     \
    SAME(stream, streamId) AT(grid[0], gridX) AT(grid[2], gridZ) AT(block[0], blockX)              \
    AT(block[2], blockZ) SAME(static_shared, staticSharedMemory)                                   \
    SAME(dynamic_shared, dynamicSharedMemory) SAME(correlation, correlationId)                     \
    SAME(grid_id, gridId) SAME(name, name) SAME(queued, queued) SAME(submitted, submitted)         \
    SAME(launch_type, launchType) SAME(shared_executed, sharedMemoryExecuted)                      \
    SAME(node, graphNodeId) SAME(graph, graphId) SAME(channel, channelID)                          \
    SAME(channel_type, channelType) AT(cluster[0], clusterX)                                       \
    SAME(local_total_64, localMemoryTotal_v2)
#define COPY                                                                                       \
    SAME(kind, kind) SAME(copy_kind, copyKind) SAME(from_kind, srcKind) SAME(to_kind, dstKind)     \
    SAME(flags, flags) SAME(bytes, bytes) SAME(start, start) SAME(end, end)                        \
    SAME(device, deviceId) SAME(context, contextId) SAME(stream, streamId)                         \
    SAME(correlation, correlationId) SAME(node, graphNodeId) SAME(graph, graphId)                  \
    SAME(channel, channelID) SAME(channel_type, channelType)
#define PEER_COPY                                                                                  \
    SAME(kind, kind) SAME(copy_kind, copyKind) SAME(from_kind, srcKind) SAME(to_kind, dstKind)     \
    SAME(flags, flags) SAME(bytes, bytes) SAME(start, start) SAME(end, end)                        \
    SAME(device, deviceId) SAME(context, contextId) SAME(stream, streamId)                         \
    SAME(from_device, srcDeviceId) SAME(from_context, srcContextId) SAME(to_device, dstDeviceId)   \
    SAME(to_context, dstContextId) SAME(correlation, correlationId) SAME(node, graphNodeId)        \
    SAME(graph, graphId) SAME(channel, channelID) SAME(channel_type, channelType)
#define FILL                                                                                       \
    SAME(kind, kind) SAME(value, value) SAME(bytes, bytes) SAME(start, start) SAME(end, end)       \
    SAME(device, deviceId) SAME(context, contextId) SAME(stream, streamId)                         \
    SAME(correlation, correlationId) SAME(flags, flags) SAME(memory_kind, memoryKind)              \
    SAME(node, graphNodeId) SAME(graph, graphId) SAME(channel, channelID)                          \
    SAME(channel_type, channelType)
#define CALL                                                                                       \
    SAME(kind, kind) SAME(cbid, cbid) SAME(start, start) SAME(end, end) SAME(pid, processId)       \
    SAME(tid, threadId) SAME(correlation, correlationId) SAME(result, returnValue)
#define SYNC                                                                                       \
    SAME(kind, kind) SAME(type, type) SAME(start, start) SAME(end, end)                            \
    SAME(correlation, correlationId) SAME(context, contextId) SAME(stream, streamId)               \
    SAME(event, cudaEventId)
#define EVENT                                                                                      \
    SAME(kind, kind) SAME(correlation, correlationId) SAME(context, contextId)                     \
    SAME(stream, streamId) SAME(event, eventId)
#define EVENT_2                                                                                    \
    EVENT SAME(device, deviceId) SAME(device_time, deviceTimestamp)                                \
    SAME(event_sync, cudaEventSyncId)
#define OVERHEAD                                                                                   \
    SAME(kind, kind) SAME(overhead_kind, overheadKind) SAME(object_kind, objectKind)               \
    SAME(object.thread.pid, objectId.pt.processId) SAME(object.thread.tid, objectId.pt.threadId)   \
    SAME(object.device.device, objectId.dcs.deviceId)                                              \
    SAME(object.device.context, objectId.dcs.contextId)                                            \
    SAME(object.device.stream, objectId.dcs.streamId) SAME(start, start) SAME(end, end)
#define MEMORY                                                                                     \
    SAME(kind, kind) SAME(operation, memoryOperationType) SAME(memory_kind, memoryKind)            \
    SAME(correlation, correlationId) SAME(address, address) SAME(bytes, bytes)                     \
    SAME(time, timestamp) SAME(pid, processId) SAME(device, deviceId) SAME(context, contextId)     \
    SAME(stream, streamId) SAME(is_async, isAsync)                                                 \
    SAME(pool.type, memoryPoolConfig.memoryPoolType) SAME(pool.address, memoryPoolConfig.address)  \
    SAME(pool.size, memoryPoolConfig.pool.size) SAME(pool.used, memoryPoolConfig.utilizedSize)
#define GRAPH                                                                                      \
    SAME(kind, kind) SAME(correlation, correlationId) SAME(start, start) SAME(end, end)            \
    SAME(device, deviceId) SAME(graph, graphId) SAME(context, contextId) SAME(stream, streamId)
#define DEVICE                                                                                     \
    SAME(kind, kind) SAME(memory, globalMemorySize) SAME(warp_size, numThreadsPerWarp)             \
    SAME(sms, numMultiprocessors) SAME(warps_per_sm, maxWarpsPerMultiprocessor)                    \
    SAME(blocks_per_sm, maxBlocksPerMultiprocessor)                                                \
    SAME(shared_per_sm, maxSharedMemoryPerMultiprocessor)                                          \
    SAME(registers_per_sm, maxRegistersPerMultiprocessor)                                          \
    SAME(registers_per_block, maxRegistersPerBlock)                                                \
    SAME(shared_per_block, maxSharedMemoryPerBlock) SAME(threads_per_block, maxThreadsPerBlock)    \
    SAME(major, computeCapabilityMajor) SAME(minor, computeCapabilityMinor) SAME(id, id)           \
    SAME(name, name) SAME(is_visible, isCudaVisible) SAME(is_mig, isMigEnabled)
#define CONTEXT                                                                                    \
    SAME(kind, kind) SAME(context, contextId) SAME(device, deviceId)                               \
    SAME(null_stream, nullStreamId)

#define KIND(id, number, when, translator) \
    _Static_assert(CUPTI_ACTIVITY_KIND_##id == (number), #id);
#include "cupti/kinds.def"
#undef KIND

/* Each version of each struct: its view, its size, the fields that cprof reads. */
#define ROW(view_, real_, bytes, fields)                                                           \
    static inline __attribute__((unused)) void check_##real_(void)                                 \
    {                                                                                              \
        typedef struct view_ view;                                                                 \
        typedef real_ real;                                                                        \
        SIZE(real_, bytes)                                                                         \
        fields                                                                                     \
    }

ROW(cupti_kernel, CUpti_ActivityKernel8, 200, KERNEL)
ROW(cupti_copy, CUpti_ActivityMemcpy5, 88, COPY)
ROW(cupti_peer_copy, CUpti_ActivityMemcpyPtoP4, 96, PEER_COPY)
ROW(cupti_fill, CUpti_ActivityMemset4, 88, FILL)
ROW(cupti_call, CUpti_ActivityAPI, 40, CALL)
ROW(cupti_sync, CUpti_ActivitySynchronization, 40, SYNC)
ROW(cupti_event, CUpti_ActivityCudaEvent, 24, EVENT)
ROW(cupti_overhead, CUpti_ActivityOverhead, 40, OVERHEAD)
ROW(cupti_memory, CUpti_ActivityMemory3, 120, MEMORY)
ROW(cupti_graph, CUpti_ActivityGraphTrace, 48, GRAPH)
ROW(cupti_device, CUpti_ActivityDevice4, 176, DEVICE)
ROW(cupti_context, CUpti_ActivityContext, 16, CONTEXT)
SIZE(CUpti_ActivityMemoryPool2, 72)

#if CUPTI_API_VERSION >= 22 /* headers of 12.4 */
ROW(cupti_kernel, CUpti_ActivityKernel9, 208, KERNEL SAME(cluster_most, maxPotentialClusterSize))
ROW(cupti_overhead, CUpti_ActivityOverhead2, 48, OVERHEAD SAME(correlation, correlationId))
ROW(cupti_overhead, CUpti_ActivityOverhead3, 56,
    OVERHEAD SAME(correlation, correlationId) SAME(data, overheadData))
ROW(cupti_graph, CUpti_ActivityGraphTrace2, 56, GRAPH)
ROW(cupti_device, CUpti_ActivityDevice5, 184, DEVICE)
ROW(cupti_context, CUpti_ActivityContext2, 24, CONTEXT)
#endif

#if CUPTI_API_VERSION >= 130000
ROW(cupti_kernel, CUpti_ActivityKernel10, 216, KERNEL SAME(device_launched, isDeviceLaunched))
ROW(cupti_copy, CUpti_ActivityMemcpy6, 96, COPY)
ROW(cupti_memory, CUpti_ActivityMemory4, 128, MEMORY)
SIZE(CUpti_ActivityMemoryPool3, 80)
ROW(cupti_sync, CUpti_ActivitySynchronization2, 56,
    SYNC SAME(event_sync, cudaEventSyncId) SAME(result, returnValue))
ROW(cupti_event, CUpti_ActivityCudaEvent2, 56, EVENT_2)
ROW(cupti_context, CUpti_ActivityContext3, 32, CONTEXT)
#endif

#if CUPTI_API_VERSION >= 130500
ROW(cupti_kernel, CUpti_ActivityKernel11, sizeof(real), KERNEL SAME(priority, priority))
ROW(cupti_kernel, CUpti_ActivityKernel13, sizeof(real), KERNEL SAME(priority, priority))
ROW(cupti_copy, CUpti_ActivityMemcpy7, sizeof(real), COPY)
ROW(cupti_fill, CUpti_ActivityMemset5, sizeof(real), FILL)
ROW(cupti_event, CUpti_ActivityCudaEvent3, sizeof(real),
    EVENT_2 SAME(node, graphNodeId) SAME(graph, graphId))
ROW(cupti_device, CUpti_ActivityDevice6, sizeof(real), DEVICE)
ROW(cupti_context, CUpti_ActivityContext4, sizeof(real), CONTEXT)
#endif
/* clang-format on */

#define CHECKED_AGAINST CUPTI_API_VERSION
#else
#define CHECKED_AGAINST 0
#endif

START_TEST(records_match_the_headers)
{
    if (CHECKED_AGAINST == 0)
        fprintf(stderr, "records: skipped, no CUPTI headers to compare with\n");
    else
        ck_assert_int_ge(CHECKED_AGAINST, CUPTI_11_8);
}
END_TEST

Suite *suite_records(void)
{
    Suite *suite = suite_create("records");
    TCase *tcase = tcase_create("records");
    tcase_add_test(tcase, records_match_the_headers);
    suite_add_tcase(suite, tcase);
    return suite;
}
