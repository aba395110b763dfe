/* SPDX-License-Identifier: Apache-2.0 */
/* cupti/records.h against the real CUPTI headers: each field that cprof reads must have its
 * offset in each version of the struct. The compiler checks this. The headers determine which
 * versions exist. */
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

#define SAME(view, ours, real, theirs)                                                             \
    _Static_assert(offsetof(struct view, ours) == offsetof(real, theirs) &&                        \
                       sizeof(((struct view *)0)->ours) == sizeof(((real *)0)->theirs),            \
                   #view "." #ours " is " #real "." #theirs);
/* The first of three int32_t that CUPTI declares separately. */
#define AT(view, ours, real, theirs)                                                               \
    _Static_assert(offsetof(struct view, ours) == offsetof(real, theirs), #view "." #ours);
#define SIZE(real, bytes) _Static_assert(sizeof(real) == (bytes), #real " has " #bytes " bytes");

#define KERNEL(real)                                                                               \
    SAME(cupti_kernel, kind, real, kind)                                                           \
    SAME(cupti_kernel, registers, real, registersPerThread)                                        \
    SAME(cupti_kernel, start, real, start)                                                         \
    SAME(cupti_kernel, end, real, end)                                                             \
    SAME(cupti_kernel, completed, real, completed)                                                 \
    SAME(cupti_kernel, device, real, deviceId)                                                     \
    SAME(cupti_kernel, context, real, contextId)                                                   \
    SAME(cupti_kernel, stream, real, streamId)                                                     \
    AT(cupti_kernel, grid[0], real, gridX)                                                         \
    AT(cupti_kernel, grid[2], real, gridZ)                                                         \
    AT(cupti_kernel, block[0], real, blockX)                                                       \
    AT(cupti_kernel, block[2], real, blockZ)                                                       \
    SAME(cupti_kernel, static_shared, real, staticSharedMemory)                                    \
    SAME(cupti_kernel, dynamic_shared, real, dynamicSharedMemory)                                  \
    SAME(cupti_kernel, correlation, real, correlationId)                                           \
    SAME(cupti_kernel, grid_id, real, gridId)                                                      \
    SAME(cupti_kernel, name, real, name)                                                           \
    SAME(cupti_kernel, queued, real, queued)                                                       \
    SAME(cupti_kernel, submitted, real, submitted)                                                 \
    SAME(cupti_kernel, launch_type, real, launchType)                                              \
    SAME(cupti_kernel, shared_executed, real, sharedMemoryExecuted)                                \
    SAME(cupti_kernel, node, real, graphNodeId)                                                    \
    SAME(cupti_kernel, graph, real, graphId)                                                       \
    SAME(cupti_kernel, channel, real, channelID)                                                   \
    SAME(cupti_kernel, channel_type, real, channelType)                                            \
    AT(cupti_kernel, cluster[0], real, clusterX)                                                   \
    SAME(cupti_kernel, local_total_64, real, localMemoryTotal_v2)

#define COPY(real)                                                                                 \
    SAME(cupti_copy, kind, real, kind)                                                             \
    SAME(cupti_copy, copy_kind, real, copyKind)                                                    \
    SAME(cupti_copy, from_kind, real, srcKind)                                                     \
    SAME(cupti_copy, to_kind, real, dstKind)                                                       \
    SAME(cupti_copy, flags, real, flags)                                                           \
    SAME(cupti_copy, bytes, real, bytes)                                                           \
    SAME(cupti_copy, start, real, start)                                                           \
    SAME(cupti_copy, end, real, end)                                                               \
    SAME(cupti_copy, device, real, deviceId)                                                       \
    SAME(cupti_copy, context, real, contextId)                                                     \
    SAME(cupti_copy, stream, real, streamId)                                                       \
    SAME(cupti_copy, correlation, real, correlationId)                                             \
    SAME(cupti_copy, node, real, graphNodeId)                                                      \
    SAME(cupti_copy, graph, real, graphId)                                                         \
    SAME(cupti_copy, channel, real, channelID)                                                     \
    SAME(cupti_copy, channel_type, real, channelType)

#define PEER_COPY(real)                                                                            \
    SAME(cupti_peer_copy, kind, real, kind)                                                        \
    SAME(cupti_peer_copy, copy_kind, real, copyKind)                                               \
    SAME(cupti_peer_copy, from_kind, real, srcKind)                                                \
    SAME(cupti_peer_copy, to_kind, real, dstKind)                                                  \
    SAME(cupti_peer_copy, flags, real, flags)                                                      \
    SAME(cupti_peer_copy, bytes, real, bytes)                                                      \
    SAME(cupti_peer_copy, start, real, start)                                                      \
    SAME(cupti_peer_copy, end, real, end)                                                          \
    SAME(cupti_peer_copy, device, real, deviceId)                                                  \
    SAME(cupti_peer_copy, context, real, contextId)                                                \
    SAME(cupti_peer_copy, stream, real, streamId)                                                  \
    SAME(cupti_peer_copy, from_device, real, srcDeviceId)                                          \
    SAME(cupti_peer_copy, from_context, real, srcContextId)                                        \
    SAME(cupti_peer_copy, to_device, real, dstDeviceId)                                            \
    SAME(cupti_peer_copy, to_context, real, dstContextId)                                          \
    SAME(cupti_peer_copy, correlation, real, correlationId)                                        \
    SAME(cupti_peer_copy, node, real, graphNodeId)                                                 \
    SAME(cupti_peer_copy, graph, real, graphId)                                                    \
    SAME(cupti_peer_copy, channel, real, channelID)                                                \
    SAME(cupti_peer_copy, channel_type, real, channelType)

#define FILL(real)                                                                                 \
    SAME(cupti_fill, kind, real, kind)                                                             \
    SAME(cupti_fill, value, real, value)                                                           \
    SAME(cupti_fill, bytes, real, bytes)                                                           \
    SAME(cupti_fill, start, real, start)                                                           \
    SAME(cupti_fill, end, real, end)                                                               \
    SAME(cupti_fill, device, real, deviceId)                                                       \
    SAME(cupti_fill, context, real, contextId)                                                     \
    SAME(cupti_fill, stream, real, streamId)                                                       \
    SAME(cupti_fill, correlation, real, correlationId)                                             \
    SAME(cupti_fill, flags, real, flags)                                                           \
    SAME(cupti_fill, memory_kind, real, memoryKind)                                                \
    SAME(cupti_fill, node, real, graphNodeId)                                                      \
    SAME(cupti_fill, graph, real, graphId)                                                         \
    SAME(cupti_fill, channel, real, channelID)                                                     \
    SAME(cupti_fill, channel_type, real, channelType)

#define CALL(real)                                                                                 \
    SAME(cupti_call, kind, real, kind)                                                             \
    SAME(cupti_call, cbid, real, cbid)                                                             \
    SAME(cupti_call, start, real, start)                                                           \
    SAME(cupti_call, end, real, end)                                                               \
    SAME(cupti_call, pid, real, processId)                                                         \
    SAME(cupti_call, tid, real, threadId)                                                          \
    SAME(cupti_call, correlation, real, correlationId)                                             \
    SAME(cupti_call, result, real, returnValue)

#define SYNC(real)                                                                                 \
    SAME(cupti_sync, kind, real, kind)                                                             \
    SAME(cupti_sync, type, real, type)                                                             \
    SAME(cupti_sync, start, real, start)                                                           \
    SAME(cupti_sync, end, real, end)                                                               \
    SAME(cupti_sync, correlation, real, correlationId)                                             \
    SAME(cupti_sync, context, real, contextId)                                                     \
    SAME(cupti_sync, stream, real, streamId)                                                       \
    SAME(cupti_sync, event, real, cudaEventId)

#define EVENT(real)                                                                                \
    SAME(cupti_event, kind, real, kind)                                                            \
    SAME(cupti_event, correlation, real, correlationId)                                            \
    SAME(cupti_event, context, real, contextId)                                                    \
    SAME(cupti_event, stream, real, streamId)                                                      \
    SAME(cupti_event, event, real, eventId)

#define EVENT_2(real)                                                                              \
    EVENT(real)                                                                                    \
    SAME(cupti_event, device, real, deviceId)                                                      \
    SAME(cupti_event, device_time, real, deviceTimestamp)                                          \
    SAME(cupti_event, event_sync, real, cudaEventSyncId)

#define OVERHEAD(real)                                                                             \
    SAME(cupti_overhead, kind, real, kind)                                                         \
    SAME(cupti_overhead, overhead_kind, real, overheadKind)                                        \
    SAME(cupti_overhead, object_kind, real, objectKind)                                            \
    SAME(cupti_overhead, object.thread.pid, real, objectId.pt.processId)                           \
    SAME(cupti_overhead, object.thread.tid, real, objectId.pt.threadId)                            \
    SAME(cupti_overhead, object.device.device, real, objectId.dcs.deviceId)                        \
    SAME(cupti_overhead, object.device.context, real, objectId.dcs.contextId)                      \
    SAME(cupti_overhead, object.device.stream, real, objectId.dcs.streamId)                        \
    SAME(cupti_overhead, start, real, start)                                                       \
    SAME(cupti_overhead, end, real, end)

#define MEMORY(real)                                                                               \
    SAME(cupti_memory, kind, real, kind)                                                           \
    SAME(cupti_memory, operation, real, memoryOperationType)                                       \
    SAME(cupti_memory, memory_kind, real, memoryKind)                                              \
    SAME(cupti_memory, correlation, real, correlationId)                                           \
    SAME(cupti_memory, address, real, address)                                                     \
    SAME(cupti_memory, bytes, real, bytes)                                                         \
    SAME(cupti_memory, time, real, timestamp)                                                      \
    SAME(cupti_memory, pid, real, processId)                                                       \
    SAME(cupti_memory, device, real, deviceId)                                                     \
    SAME(cupti_memory, context, real, contextId)                                                   \
    SAME(cupti_memory, stream, real, streamId)                                                     \
    SAME(cupti_memory, is_async, real, isAsync)                                                    \
    SAME(cupti_memory, pool.type, real, memoryPoolConfig.memoryPoolType)                           \
    SAME(cupti_memory, pool.address, real, memoryPoolConfig.address)                               \
    SAME(cupti_memory, pool.size, real, memoryPoolConfig.pool.size)                                \
    SAME(cupti_memory, pool.used, real, memoryPoolConfig.utilizedSize)

#define GRAPH(real)                                                                                \
    SAME(cupti_graph, kind, real, kind)                                                            \
    SAME(cupti_graph, correlation, real, correlationId)                                            \
    SAME(cupti_graph, start, real, start)                                                          \
    SAME(cupti_graph, end, real, end)                                                              \
    SAME(cupti_graph, device, real, deviceId)                                                      \
    SAME(cupti_graph, graph, real, graphId)                                                        \
    SAME(cupti_graph, context, real, contextId)                                                    \
    SAME(cupti_graph, stream, real, streamId)

#define DEVICE(real)                                                                               \
    SAME(cupti_device, kind, real, kind)                                                           \
    SAME(cupti_device, memory, real, globalMemorySize)                                             \
    SAME(cupti_device, warp_size, real, numThreadsPerWarp)                                         \
    SAME(cupti_device, sms, real, numMultiprocessors)                                              \
    SAME(cupti_device, warps_per_sm, real, maxWarpsPerMultiprocessor)                              \
    SAME(cupti_device, blocks_per_sm, real, maxBlocksPerMultiprocessor)                            \
    SAME(cupti_device, shared_per_sm, real, maxSharedMemoryPerMultiprocessor)                      \
    SAME(cupti_device, registers_per_sm, real, maxRegistersPerMultiprocessor)                      \
    SAME(cupti_device, registers_per_block, real, maxRegistersPerBlock)                            \
    SAME(cupti_device, shared_per_block, real, maxSharedMemoryPerBlock)                            \
    SAME(cupti_device, threads_per_block, real, maxThreadsPerBlock)                                \
    SAME(cupti_device, major, real, computeCapabilityMajor)                                        \
    SAME(cupti_device, minor, real, computeCapabilityMinor)                                        \
    SAME(cupti_device, id, real, id)                                                               \
    SAME(cupti_device, name, real, name)                                                           \
    SAME(cupti_device, is_visible, real, isCudaVisible)                                            \
    SAME(cupti_device, is_mig, real, isMigEnabled)

#define CONTEXT(real)                                                                              \
    SAME(cupti_context, kind, real, kind)                                                          \
    SAME(cupti_context, context, real, contextId)                                                  \
    SAME(cupti_context, device, real, deviceId)                                                    \
    SAME(cupti_context, null_stream, real, nullStreamId)

/* clang-format off */
#define KIND(id, number, when, translator) \
    _Static_assert(CUPTI_ACTIVITY_KIND_##id == (number), #id);
#include "cupti/kinds.def"
#undef KIND

KERNEL(CUpti_ActivityKernel8)
SIZE(CUpti_ActivityKernel8, 200)
COPY(CUpti_ActivityMemcpy5)
SIZE(CUpti_ActivityMemcpy5, 88)
PEER_COPY(CUpti_ActivityMemcpyPtoP4)
SIZE(CUpti_ActivityMemcpyPtoP4, 96)
FILL(CUpti_ActivityMemset4)
SIZE(CUpti_ActivityMemset4, 88)
CALL(CUpti_ActivityAPI)
SIZE(CUpti_ActivityAPI, 40)
SYNC(CUpti_ActivitySynchronization)
SIZE(CUpti_ActivitySynchronization, 40)
EVENT(CUpti_ActivityCudaEvent)
SIZE(CUpti_ActivityCudaEvent, 24)
OVERHEAD(CUpti_ActivityOverhead)
SIZE(CUpti_ActivityOverhead, 40)
MEMORY(CUpti_ActivityMemory3)
SIZE(CUpti_ActivityMemory3, 120)
GRAPH(CUpti_ActivityGraphTrace)
SIZE(CUpti_ActivityGraphTrace, 48)
DEVICE(CUpti_ActivityDevice4)
SIZE(CUpti_ActivityDevice4, 176)
CONTEXT(CUpti_ActivityContext)
SIZE(CUpti_ActivityContext, 16)
SIZE(CUpti_ActivityMemoryPool2, 72)

#if CUPTI_API_VERSION >= 22 /* headers of 12.4 */
KERNEL(CUpti_ActivityKernel9)
SIZE(CUpti_ActivityKernel9, 208)
SAME(cupti_kernel, cluster_most, CUpti_ActivityKernel9, maxPotentialClusterSize)
OVERHEAD(CUpti_ActivityOverhead2)
SIZE(CUpti_ActivityOverhead2, 48)
SAME(cupti_overhead, correlation, CUpti_ActivityOverhead2, correlationId)
OVERHEAD(CUpti_ActivityOverhead3)
SIZE(CUpti_ActivityOverhead3, 56)
SAME(cupti_overhead, correlation, CUpti_ActivityOverhead3, correlationId)
SAME(cupti_overhead, data, CUpti_ActivityOverhead3, overheadData)
GRAPH(CUpti_ActivityGraphTrace2)
SIZE(CUpti_ActivityGraphTrace2, 56)
DEVICE(CUpti_ActivityDevice5)
SIZE(CUpti_ActivityDevice5, 184)
CONTEXT(CUpti_ActivityContext2)
SIZE(CUpti_ActivityContext2, 24)
#endif

#if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10)
SIZE(CUpti_ActivityKernel10, 216)
SAME(cupti_kernel, device_launched, CUpti_ActivityKernel10, isDeviceLaunched)
COPY(CUpti_ActivityMemcpy6)
SIZE(CUpti_ActivityMemcpy6, 96)
MEMORY(CUpti_ActivityMemory4)
SIZE(CUpti_ActivityMemory4, 128)
SIZE(CUpti_ActivityMemoryPool3, 80)
SYNC(CUpti_ActivitySynchronization2)
SIZE(CUpti_ActivitySynchronization2, 56)
SAME(cupti_sync, event_sync, CUpti_ActivitySynchronization2, cudaEventSyncId)
SAME(cupti_sync, result, CUpti_ActivitySynchronization2, returnValue)
EVENT_2(CUpti_ActivityCudaEvent2)
SIZE(CUpti_ActivityCudaEvent2, 56)
CONTEXT(CUpti_ActivityContext3)
SIZE(CUpti_ActivityContext3, 32)
#endif

#if CUPTI_API_VERSION >= 130500
KERNEL(CUpti_ActivityKernel11)
SAME(cupti_kernel, priority, CUpti_ActivityKernel11, priority)
KERNEL(CUpti_ActivityKernel13)
SAME(cupti_kernel, priority, CUpti_ActivityKernel13, priority)
COPY(CUpti_ActivityMemcpy7)
FILL(CUpti_ActivityMemset5)
EVENT_2(CUpti_ActivityCudaEvent3)
SAME(cupti_event, node, CUpti_ActivityCudaEvent3, graphNodeId)
SAME(cupti_event, graph, CUpti_ActivityCudaEvent3, graphId)
DEVICE(CUpti_ActivityDevice6)
CONTEXT(CUpti_ActivityContext4)
#endif
/* clang-format on */

#define CHECKED_AGAINST CUPTI_API_VERSION
#else
#define CHECKED_AGAINST 0
#endif

START_TEST(headers)
{
    if (CHECKED_AGAINST == 0) {
        fprintf(stderr, "gpu_records: skipped, no CUPTI headers to compare with\n");
    } else {
        ck_assert_int_ge(CHECKED_AGAINST, CUPTI_11_8);
    }
}
END_TEST

Suite *suite_gpu_records(void)
{
    Suite *suite = suite_create("gpu_records");
    TCase *tcase = tcase_create("gpu_records");
    tcase_add_test(tcase, headers);
    suite_add_tcase(suite, tcase);
    return suite;
}
