/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cupti/translate.h with every kind in every version of its struct, built from the real
 * structs. Garbage follows each struct, which shows reads of fields that the version does not
 * have. */
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
    static const char *const texts[] = {"cudaLaunchKernel_v7000", "cudaGetDevice_v3020",
                                        "cudaEventRecord_v3020"};
    static const char *const driver[] = {"cuLaunchKernel", "cuCtxGetCurrent", "cuMemAlloc_v2"};
    if (cbid >= 3)
        return 1;
    *name = domain == 1 ? driver[cbid] : texts[cbid];
    return 0;
}

/* Makes room for a record of `size` zeroed bytes. */
static void *record(size_t size)
{
    memset(&room, 0xEE, sizeof(room));
    memset(&room, 0, size);
    return room.bytes;
}

static struct gpu_record out;

static enum translate_result take(uint32_t version)
{
    struct translate t = {.version = version, .ticks = plus_5, .callback_name = call_name};
    memset(&out, 0x55, sizeof(out));
    return translate(&t, room.bytes, &out);
}

#define ck_name(want)                                                                              \
    do {                                                                                           \
        ck_assert_uint_eq(out.name_len, strlen(want));                                             \
        ck_assert_mem_eq(out.name, want, out.name_len);                                            \
    } while (0)

#define ck_place(want_device, want_context, want_stream)                                           \
    do {                                                                                           \
        ck_assert_uint_eq(out.device, want_device);                                                \
        ck_assert_uint_eq(out.context, want_context);                                              \
        ck_assert_uint_eq(out.stream, want_stream);                                                \
    } while (0)

#define ck_times(want_start, want_end)                                                             \
    do {                                                                                           \
        ck_assert_uint_eq(out.start, want_start);                                                  \
        ck_assert_uint_eq(out.end, want_end);                                                      \
    } while (0)

/* An H200. */
static void add_device(void)
{
    CUpti_ActivityDevice4 *d = record(sizeof(*d));
    d->kind = CUPTI_ACTIVITY_KIND_DEVICE;
    d->name = "NVIDIA H200";
    d->isCudaVisible = 1;
    d->computeCapabilityMajor = 9;
    d->numMultiprocessors = 132;
    d->numThreadsPerWarp = 32;
    d->maxWarpsPerMultiprocessor = 64;
    d->maxBlocksPerMultiprocessor = 32;
    d->maxSharedMemoryPerMultiprocessor = 233472;
    d->maxRegistersPerMultiprocessor = 65536;
    ck_assert_int_eq(take(V11_8), TRANSLATE_TAKEN);
    ck_assert_str_eq(gpu_device_name(0), "NVIDIA H200");
}

static void add_context(uint32_t context, uint32_t device)
{
    CUpti_ActivityContext *c = record(sizeof(*c));
    c->kind = CUPTI_ACTIVITY_KIND_CONTEXT;
    c->contextId = context;
    c->deviceId = device;
    ck_assert_int_eq(take(V11_8), TRANSLATE_TAKEN);
    ck_assert_uint_eq(gpu_device_of(context), device);
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define MAKE_KERNEL(real)                                                                          \
    static void *make_##real(void)                                                                 \
    {                                                                                              \
        real *k = record(sizeof(*k));                                                              \
        k->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;                                           \
        k->registersPerThread = 40;                                                                \
        k->start = 1000000;                                                                        \
        k->end = 1003000;                                                                          \
        k->completed = 1003000;                                                                    \
        k->deviceId = 0;                                                                           \
        k->contextId = 1;                                                                          \
        k->streamId = 7;                                                                           \
        k->gridX = 264;                                                                            \
        k->gridY = 2;                                                                              \
        k->gridZ = 1;                                                                              \
        k->blockX = 128;                                                                           \
        k->blockY = 2;                                                                             \
        k->blockZ = 1;                                                                             \
        k->staticSharedMemory = 1000;                                                              \
        k->dynamicSharedMemory = 24;                                                               \
        k->correlationId = 42;                                                                     \
        k->gridId = 9;                                                                             \
        k->name = "_Z6vecaddPf";                                                                   \
        k->graphNodeId = 0x300000001;                                                              \
        k->graphId = 3;                                                                            \
        k->channelID = 12;                                                                         \
        k->channelType = (CUpti_ChannelType)1;                                                     \
        return k;                                                                                  \
    }

/* Kernel11 (13.1) appends the priority to Kernel10. */
static void *make_kernel_with_priority(void);

MAKE_KERNEL(CUpti_ActivityKernel8)
MAKE_KERNEL(CUpti_ActivityKernel9)
MAKE_KERNEL(CUpti_ActivityKernel10)
#if CUPTI_API_VERSION >= 130500
MAKE_KERNEL(CUpti_ActivityKernel13)

static void *make_kernel_with_priority(void)
{
    CUpti_ActivityKernel13 *k = make_CUpti_ActivityKernel13();
    k->priority = -5;
    return k;
}
#else
static void *make_kernel_with_priority(void)
{
    void *k = make_CUpti_ActivityKernel10();
    int32_t priority = -5;
    memcpy(room.bytes + sizeof(CUpti_ActivityKernel10), &priority, sizeof(priority));
    return k;
}
#endif

static const struct {
    uint32_t version;
    void *(*make)(void);
} kernels[] = {
    {V11_8, make_CUpti_ActivityKernel8},  {V12_0, make_CUpti_ActivityKernel9},
    {V12_4, make_CUpti_ActivityKernel9},  {V12_6, make_CUpti_ActivityKernel9},
    {V12_8, make_CUpti_ActivityKernel9},  {28, make_CUpti_ActivityKernel9},
    {V13_0, make_CUpti_ActivityKernel10}, {130001, make_CUpti_ActivityKernel10},
    {V13_1, make_kernel_with_priority},   {130500, make_kernel_with_priority},
    {999999, make_kernel_with_priority},
};

START_TEST(kernel)
{
    gpu_devices_forget();
    add_device();
    uint32_t version = kernels[_i].version;
    kernels[_i].make();
    ck_assert_int_eq(take(version), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_KERNEL);
    ck_assert_uint_eq(out.flags, 0);
    ck_assert_uint_eq(out.correlation, 42);
#ifndef CPROF_NO_DEMANGLE
    ck_name("vecadd(float*)");
#endif
    ck_times(1000005, 1003005);
    ck_place(0, 1, 7);
    ck_assert_uint_eq(out.graph, 3);
    ck_assert_uint_eq(out.node, 0x300000001);
    ck_assert_int_eq(out.kernel.grid[0], 264);
    ck_assert_int_eq(out.kernel.grid[1], 2);
    ck_assert_int_eq(out.kernel.grid[2], 1);
    ck_assert_int_eq(out.kernel.block[0], 128);
    ck_assert_int_eq(out.kernel.block[1], 2);
    ck_assert_int_eq(out.kernel.block[2], 1);
    ck_assert_uint_eq(out.kernel.registers, 40);
    ck_assert_int_eq(out.kernel.shared_memory, 1024);
    ck_assert(out.kernel.has_channel);
    ck_assert_uint_eq(out.kernel.channel, 12);
    ck_assert_uint_eq(out.kernel.channel_type, 1);
    ck_assert_int_eq(out.kernel.has_priority, version >= V13_1);
    ck_assert_int_eq(out.kernel.priority, version >= V13_1 ? -5 : 0);
    ck_assert_uint_eq(out.kernel.queued_ns, 0);
    /* 528 blocks of 256 threads on 132 SMs: 4 each, all at once. */
    ck_assert_float_eq_tol(out.kernel.blocks_per_sm, 4, 1e-6);
    ck_assert_float_eq_tol(out.kernel.warps_per_sm, 32, 1e-6);
    ck_assert_int_eq(out.kernel.occupancy, 50);
    /* The record also identifies the context's device. */
    ck_assert_uint_eq(gpu_device_of(1), 0);
}
END_TEST

START_TEST(kernel_without)
{
    gpu_devices_forget();
    CUpti_ActivityKernel9 *k = make_CUpti_ActivityKernel9();
    k->name = NULL;
    k->channelID = UINT32_MAX;
    k->queued = 2000000; /* after the start: invalid */
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    ck_name("(unnamed kernel)");
    ck_assert(!out.kernel.has_channel);
    ck_assert_uint_eq(out.kernel.queued_ns, 0);
    ck_assert_int_eq(out.kernel.occupancy, -1);
    ck_assert_float_eq(out.kernel.blocks_per_sm, -1);

    clock_start();
    k->queued = k->start - 1000;
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    uint64_t ns = (uint64_t)(1000 * 1e9 / clock_ticks_per_second());
    ck_assert(out.kernel.queued_ns + 1 >= ns && out.kernel.queued_ns <= ns + 1);

    /* values that no kernel can have */
    add_device();
    k = make_CUpti_ActivityKernel9();
    k->gridX = k->gridY = k->gridZ = INT32_MAX;
    k->staticSharedMemory = k->dynamicSharedMemory = INT32_MIN;
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    ck_assert_int_eq(out.kernel.occupancy, 75); /* limited by its registers */
    k->blockX = k->blockY = k->blockZ = INT32_MAX;
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    ck_assert_int_eq(out.kernel.occupancy, -1);
    k->blockX = 0;
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    ck_assert_int_eq(out.kernel.occupancy, -1);
}
END_TEST

/* ---- copies ---------------------------------------------------------------------------------- */

#define MAKE_COPY(real)                                                                            \
    static void *make_##real(void)                                                                 \
    {                                                                                              \
        real *c = record(sizeof(*c));                                                              \
        c->kind = CUPTI_ACTIVITY_KIND_MEMCPY;                                                      \
        c->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;                                             \
        c->srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;                                          \
        c->dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;                                            \
        c->flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;                                               \
        c->bytes = 1ull << 33;                                                                     \
        c->start = 2000;                                                                           \
        c->end = 2500;                                                                             \
        c->deviceId = 2;                                                                           \
        c->contextId = 4;                                                                          \
        c->streamId = 13;                                                                          \
        c->correlationId = 77;                                                                     \
        c->runtimeCorrelationId = 78;                                                              \
        c->graphNodeId = 0x500000002;                                                              \
        c->graphId = 5;                                                                            \
        c->channelID = 3;                                                                          \
        c->channelType = (CUpti_ChannelType)2;                                                     \
        return c;                                                                                  \
    }

MAKE_COPY(CUpti_ActivityMemcpy5)
MAKE_COPY(CUpti_ActivityMemcpy6)

START_TEST(copy)
{
    static const uint32_t versions[] = {V11_8, V12_0, V12_4, V12_6, V12_8, V13_0, V13_1, 999999};
    if (versions[_i] >= V12_8) {
        make_CUpti_ActivityMemcpy6();
    } else {
        make_CUpti_ActivityMemcpy5();
    }
    ck_assert_int_eq(take(versions[_i]), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_COPY);
    ck_assert_uint_eq(out.flags, GPU_ASYNC);
    ck_assert_uint_eq(out.correlation, 77);
    ck_name("Memcpy HtoD (Pageable -> Device)");
    ck_times(2005, 2505);
    ck_place(2, 4, 13);
    ck_assert_uint_eq(out.graph, 5);
    ck_assert_uint_eq(out.node, 0x500000002);
    ck_assert_uint_eq(out.copy.bytes, 1ull << 33);
    ck_assert_uint_eq(out.copy.kind, 1);
    ck_assert_uint_eq(out.copy.from_kind, 1);
    ck_assert_uint_eq(out.copy.to_kind, 3);
    ck_assert(out.copy.has_channel);
    ck_assert_uint_eq(out.copy.channel, 3);
    ck_assert_uint_eq(out.copy.channel_type, 2);
}
END_TEST

START_TEST(peer_copy)
{
    CUpti_ActivityMemcpyPtoP4 *c = record(sizeof(*c));
    c->kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
    c->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    c->srcKind = c->dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    c->bytes = 4096;
    c->start = c->end = 10;
    c->deviceId = 1;
    c->contextId = 2;
    c->streamId = 20;
    c->srcDeviceId = 1;
    c->srcContextId = 2;
    c->dstDeviceId = 3;
    c->dstContextId = 4;
    c->correlationId = 6;
    c->channelID = UINT32_MAX;
    ck_assert_int_eq(take(V12_8), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_COPY);
    ck_assert_uint_eq(out.flags, GPU_PEER);
    ck_assert_uint_eq(out.correlation, 6);
    ck_name("Memcpy PtoP (Device -> Device)");
    ck_times(15, 15);
    ck_place(1, 2, 20);
    ck_assert_uint_eq(out.graph, 0);
    ck_assert_uint_eq(out.node, 0);
    ck_assert_uint_eq(out.copy.bytes, 4096);
    ck_assert_uint_eq(out.copy.kind, 10);
    ck_assert_uint_eq(out.copy.peer.from_device, 1);
    ck_assert_uint_eq(out.copy.peer.from_context, 2);
    ck_assert_uint_eq(out.copy.peer.to_device, 3);
    ck_assert_uint_eq(out.copy.peer.to_context, 4);
    ck_assert(!out.copy.has_channel);
}
END_TEST

START_TEST(fill)
{
    CUpti_ActivityMemset4 *f = record(sizeof(*f));
    f->kind = CUPTI_ACTIVITY_KIND_MEMSET;
    f->value = 0xAB;
    f->bytes = 512;
    f->start = 100;
    f->end = 200;
    f->deviceId = 0;
    f->contextId = 1;
    f->streamId = 7;
    f->correlationId = 8;
    f->flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
    f->memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
    f->graphNodeId = 0x900000001;
    f->graphId = 9;
    f->channelID = 4;
    f->channelType = (CUpti_ChannelType)1;
    ck_assert_int_eq(take(V11_8), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_FILL);
    ck_assert_uint_eq(out.flags, GPU_ASYNC);
    ck_assert_uint_eq(out.correlation, 8);
    ck_name("Memset (Managed)");
    ck_times(105, 205);
    ck_place(0, 1, 7);
    ck_assert_uint_eq(out.graph, 9);
    ck_assert_uint_eq(out.node, 0x900000001);
    ck_assert_uint_eq(out.copy.bytes, 512);
    ck_assert_uint_eq(out.copy.to_kind, 5);
    ck_assert_uint_eq(out.copy.channel, 4);
    f->memoryKind = 0x103; /* an invalid kind, although its low byte is 3 */
    ck_assert_int_eq(take(V11_8), TRANSLATE_RECORD);
    ck_name("Memset (Unknown)");
    ck_assert_uint_eq(out.copy.to_kind, 0);
}
END_TEST

/* ---- calls, waits, events -------------------------------------------------------------------- */

static CUpti_ActivityAPI *make_call(CUpti_ActivityKind kind, uint32_t cbid)
{
    CUpti_ActivityAPI *c = record(sizeof(*c));
    c->kind = kind;
    c->cbid = cbid;
    c->start = 50;
    c->end = 60;
    c->processId = 1;
    c->threadId = 4242;
    c->correlationId = UINT32_MAX;
    return c;
}

START_TEST(call)
{
    CUpti_ActivityAPI *c = make_call(CUPTI_ACTIVITY_KIND_RUNTIME, 0);
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_CALL);
    ck_assert_uint_eq(out.flags, 0);
    ck_assert_uint_eq(out.correlation, UINT32_MAX);
    ck_name("cudaLaunchKernel");
    ck_times(55, 65);
    ck_place(GPU_NONE, GPU_NONE, GPU_NONE);
    ck_assert_uint_eq(out.call.tid, 4242);
    ck_assert_uint_eq(out.call.cbid, 0);
    ck_assert_uint_eq(out.call.effect, EFFECT_KERNEL);
    c->returnValue = 2;
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.flags, GPU_FAILED);

    make_call(CUPTI_ACTIVITY_KIND_DRIVER, 2);
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.flags, GPU_DRIVER);
    ck_name("cuMemAlloc");
    ck_assert_uint_eq(out.call.effect, EFFECT_NONE);

    make_call(CUPTI_ACTIVITY_KIND_RUNTIME, 1);
    ck_assert_int_eq(take(V12_4), TRANSLATE_SKIPPED);
    c = make_call(CUPTI_ACTIVITY_KIND_DRIVER, 1);
    c->start = c->end = 0; /* no loss, because the call would not be shown */
    ck_assert_int_eq(take(V12_4), TRANSLATE_SKIPPED);
    make_call(CUPTI_ACTIVITY_KIND_DRIVER, 77); /* older CUPTI under a newer driver */
    ck_assert_int_eq(take(V12_4), TRANSLATE_SKIPPED);
}
END_TEST

static void fill_sync(CUpti_ActivitySynchronization *s)
{
    s->kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    s->type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    s->start = 300;
    s->end = 301;
    s->correlationId = 31;
    s->contextId = 11;
    s->streamId = 14;
    s->cudaEventId = 5;
}

START_TEST(waits)
{
    gpu_devices_forget();
    add_context(11, 6);
    CUpti_ActivitySynchronization *s = record(sizeof(*s));
    fill_sync(s);
    for (int i = 0; i < 4; i++) {
        static const uint32_t versions[] = {V11_8, V12_0, V12_4, V12_6};
        ck_assert_int_eq(take(versions[i]), TRANSLATE_RECORD);
        ck_assert_uint_eq(out.sync.event_sync, 0);
        ck_assert_uint_eq(out.sync.result, 0);
    }
    ck_assert_uint_eq(out.kind, GPU_SYNC);
    ck_assert_uint_eq(out.correlation, 31);
    ck_name("Stream Wait Event");
    ck_times(305, 306);
    ck_place(6, 11, 14);
    ck_assert_uint_eq(out.sync.type, 2);
    ck_assert_uint_eq(out.sync.event, 5);

    CUpti_ActivitySynchronization2 *s2 = record(sizeof(*s2));
    fill_sync((CUpti_ActivitySynchronization *)s2);
    s2->cudaEventSyncId = 1ull << 40;
    s2->returnValue = 600;
    ck_assert_int_eq(take(V12_8), TRANSLATE_RECORD);
    ck_place(6, 11, 14);
    ck_assert_uint_eq(out.sync.event, 5);
    ck_assert_uint_eq(out.sync.event_sync, 1ull << 40);
    ck_assert_uint_eq(out.sync.result, 600);

    s2->type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
    s2->contextId = 12;
    s2->streamId = s2->cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    s2->cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    ck_assert_int_eq(take(V13_0), TRANSLATE_RECORD);
    ck_name("Context Sync");
    ck_place(GPU_NONE, 12, GPU_NONE);
    ck_assert_uint_eq(out.sync.event, GPU_NONE);
    ck_assert_uint_eq(out.sync.event_sync, 0);
}
END_TEST

START_TEST(event)
{
    gpu_devices_forget();
    add_context(11, 6);
    CUpti_ActivityCudaEvent *e = record(sizeof(*e));
    e->kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    e->correlationId = 99;
    e->contextId = 11;
    e->streamId = 7;
    e->eventId = 3;
    ck_assert_int_eq(take(V12_6), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_EVENT);
    ck_assert_uint_eq(out.correlation, 99);
    ck_assert_ptr_null(out.name);
    ck_times(0, 0);
    ck_place(6, 11, 7);
    ck_assert_uint_eq(out.event.event, 3);
    ck_assert_uint_eq(out.event.event_sync, 0);

    CUpti_ActivityCudaEvent2 *e2 = record(sizeof(*e2));
    e2->kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    e2->correlationId = 99;
    e2->contextId = 11;
    e2->streamId = 7;
    e2->eventId = 3;
    e2->deviceId = 2;
    e2->cudaEventSyncId = 123456789012;
    ck_assert_int_eq(take(V12_8), TRANSLATE_RECORD);
    ck_times(0, 0);
    ck_place(2, 11, 7);
    ck_assert_uint_eq(out.event.event_sync, 123456789012);
    e2->deviceTimestamp = 1000;
    ck_assert_int_eq(take(V13_1), TRANSLATE_RECORD);
    ck_times(1005, 1005);
    ck_assert_uint_eq(out.graph, 0);
#if CUPTI_API_VERSION >= 130500
    CUpti_ActivityCudaEvent3 *e3 = record(sizeof(*e3));
    e3->kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
    e3->graphId = 4;
    e3->graphNodeId = 0x400000007;
    ck_assert_int_eq(take(130500), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.graph, 4);
    ck_assert_uint_eq(out.node, 0x400000007);
#endif
}
END_TEST

/* ---- overhead, memory, graphs ---------------------------------------------------------------- */

#define FILL_OVERHEAD(o)                                                                           \
    do {                                                                                           \
        (o)->kind = CUPTI_ACTIVITY_KIND_OVERHEAD;                                                  \
        (o)->overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;                           \
        (o)->objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;                                            \
        (o)->objectId.pt.processId = 1;                                                            \
        (o)->objectId.pt.threadId = 55;                                                            \
        (o)->start = 10;                                                                           \
        (o)->end = 20;                                                                             \
    } while (0)

START_TEST(overhead)
{
    CUpti_ActivityOverhead *o = record(sizeof(*o));
    FILL_OVERHEAD(o);
    ck_assert_int_eq(take(V12_2), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_OVERHEAD);
    ck_assert_uint_eq(out.correlation, 0);
    ck_name("Command Buffer Full");
    ck_times(15, 25);
    ck_place(GPU_NONE, GPU_NONE, GPU_NONE);
    ck_assert_uint_eq(out.overhead.tid, 0); /* before 12.4 the record names no thread */

    CUpti_ActivityOverhead2 *o2 = record(sizeof(*o2));
    FILL_OVERHEAD(o2);
    o2->correlationId = 17;
    ck_assert_int_eq(take(V12_3), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.correlation, 17);

    /* The leak sanitizer checks that the data is freed, even if the record is useless. */
    for (int i = 0; i < 3; i++) {
        CUpti_ActivityOverhead3 *o3 = record(sizeof(*o3));
        FILL_OVERHEAD(o3);
        o3->overheadData = malloc(sizeof(CUpti_ActivityOverheadCommandBufferFullData));
        o3->end = (uint64_t[]){20, 0, 5}[i];
        static const enum translate_result results[] = {TRANSLATE_RECORD, TRANSLATE_UNFINISHED,
                                                        TRANSLATE_INVALID};
        ck_assert_int_eq(take(V12_4), results[i]);
        ck_assert(i != 0 || out.overhead.tid == 55);
    }

    o = record(sizeof(CUpti_ActivityOverhead3));
    FILL_OVERHEAD(o);
    o->overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE;
    o->objectKind = CUPTI_ACTIVITY_OBJECT_STREAM;
    o->objectId.dcs.deviceId = 1;
    o->objectId.dcs.contextId = 2;
    o->objectId.dcs.streamId = 3;
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_name("Resource");
    ck_place(1, 2, 3);
    ck_assert_uint_eq(out.overhead.tid, 0);
    o->objectKind = CUPTI_ACTIVITY_OBJECT_CONTEXT;
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_place(1, 2, GPU_NONE);
    o->objectKind = CUPTI_ACTIVITY_OBJECT_DEVICE;
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_place(1, GPU_NONE, GPU_NONE);
}
END_TEST

#define FILL_MEMORY(m)                                                                             \
    do {                                                                                           \
        (m)->kind = CUPTI_ACTIVITY_KIND_MEMORY2;                                                   \
        (m)->memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;                \
        (m)->memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;                                       \
        (m)->correlationId = 70;                                                                   \
        (m)->address = 0x7f0000000000;                                                             \
        (m)->bytes = 1 << 20;                                                                      \
        (m)->timestamp = 900;                                                                      \
        (m)->processId = 1;                                                                        \
        (m)->deviceId = 1;                                                                         \
        (m)->contextId = 2;                                                                        \
        (m)->streamId = 8;                                                                         \
        (m)->isAsync = 1;                                                                          \
        (m)->memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;              \
        (m)->memoryPoolConfig.address = 0x5000;                                                    \
        (m)->memoryPoolConfig.pool.size = 1 << 25;                                                 \
        (m)->memoryPoolConfig.utilizedSize = 1 << 21;                                              \
    } while (0)

START_TEST(memory)
{
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            CUpti_ActivityMemory3 *m = record(sizeof(*m));
            FILL_MEMORY(m);
        } else {
            CUpti_ActivityMemory4 *m = record(sizeof(*m));
            FILL_MEMORY(m);
        }
        ck_assert_int_eq(take(i == 0 ? V11_8 : V12_6), TRANSLATE_RECORD);
        ck_assert_uint_eq(out.kind, GPU_MEMORY);
        ck_assert_uint_eq(out.flags, GPU_ASYNC);
        ck_assert_uint_eq(out.correlation, 70);
        ck_times(905, 905);
        ck_place(1, 2, 8);
        ck_assert_uint_eq(out.memory.address, 0x7f0000000000);
        ck_assert_uint_eq(out.memory.bytes, 1 << 20);
        ck_assert_uint_eq(out.memory.kind, 3);
        ck_assert_uint_eq(out.memory.tid, 0);
        ck_assert_uint_eq(out.memory.pool, 0x5000);
        ck_assert_uint_eq(out.memory.pool_size, 1 << 25);
        ck_assert_uint_eq(out.memory.pool_used, 1 << 21);
    }
    CUpti_ActivityMemory4 *m = (CUpti_ActivityMemory4 *)room.bytes;
    m->memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
    m->isAsync = 0;
    m->contextId = 0; /* CUPTI_INVALID_CONTEXT_ID of 13.5 */
    m->memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED;
    ck_assert_int_eq(take(V13_0), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.flags, GPU_RELEASE);
    ck_place(1, GPU_NONE, GPU_NONE);
    ck_assert_uint_eq(out.memory.pool, 0x5000);
    ck_assert_uint_eq(out.memory.pool_size, 0); /* here the field holds a process id */
    m->memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID;
    ck_assert_int_eq(take(V13_0), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.memory.pool, 0);
    m->timestamp = 0;
    ck_assert_int_eq(take(V13_0), TRANSLATE_UNTIMED);
    m->memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_INVALID;
    ck_assert_int_eq(take(V13_0), TRANSLATE_INVALID);

    CUpti_ActivityMemoryPool2 *p = record(sizeof(*p));
    p->kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
    ck_assert_int_eq(take(V11_8), TRANSLATE_TAKEN);
}
END_TEST

START_TEST(graph)
{
    CUpti_ActivityGraphTrace2 *g = record(sizeof(CUpti_ActivityGraphTrace));
    g->kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
    g->correlationId = 12;
    g->start = 40;
    g->end = 90;
    g->deviceId = 1;
    g->graphId = 21;
    g->contextId = 2;
    g->streamId = 7;
    ck_assert_int_eq(take(V12_0), TRANSLATE_RECORD);
    ck_assert_uint_eq(out.kind, GPU_GRAPH);
    ck_assert_uint_eq(out.correlation, 12);
    ck_name("CUDA graph 21");
    ck_times(45, 95);
    ck_place(1, 2, 7);
    ck_assert_uint_eq(out.graph, 21);
    ck_assert_uint_eq(out.node, 0);
    g->deviceId = INT_MAX;
    g->contextId = INT_MAX;
    ck_assert_int_eq(take(V12_4), TRANSLATE_RECORD);
    ck_place(GPU_NONE, GPU_NONE, 7);
}
END_TEST

/* ---- times, unknown kinds -------------------------------------------------------------------- */

static uint64_t backwards(uint64_t time)
{
    return 1000 - time;
}

START_TEST(times)
{
    static const struct {
        uint32_t kind;
        size_t start, end; /* offsets */
    } timed[] = {
#define TIMED(kind, real) CUPTI_ACTIVITY_KIND_##kind, offsetof(real, start), offsetof(real, end)
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
    static const struct {
        uint64_t start, end;
        enum translate_result result;
    } cases[] = {
        {0, 0, TRANSLATE_UNTIMED}, {7, 0, TRANSLATE_UNFINISHED},
        {8, 7, TRANSLATE_INVALID}, {0, 7, TRANSLATE_INVALID},
        {7, 7, TRANSLATE_RECORD},  {1, UINT64_MAX - 9, TRANSLATE_RECORD},
    };
    for (size_t kind = 0; kind < sizeof(timed) / sizeof(timed[0]); kind++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            record(300);
            memcpy(room.bytes, &timed[kind].kind, sizeof(timed[kind].kind));
            memcpy(room.bytes + timed[kind].start, &cases[i].start, 8);
            memcpy(room.bytes + timed[kind].end, &cases[i].end, 8);
            ck_assert_int_eq(take(V13_0), cases[i].result);
            if (cases[i].result == TRANSLATE_RECORD)
                ck_times(cases[i].start + 5, cases[i].end + 5);
        }
    }
    /* An interval must not end before its start, even if the clock maps it backwards. */
    make_CUpti_ActivityMemcpy5();
    CUpti_ActivityMemcpy5 *c = (CUpti_ActivityMemcpy5 *)room.bytes;
    c->start = 10;
    c->end = 20;
    struct translate t = {.version = V12_0, .ticks = backwards, .callback_name = call_name};
    ck_assert_int_eq(translate(&t, c, &out), TRANSLATE_RECORD);
    ck_times(990, 990);
}
END_TEST

START_TEST(unknown_kinds)
{
    for (uint32_t kind = 0; kind < 200; kind++) {
        switch (kind) {
#define KIND(id, number, when, translator) case number:
#include "cupti/kinds.def"
#undef KIND
            break;
        default:
            record(300);
            memcpy(room.bytes, &kind, sizeof(kind));
            ck_assert_int_eq(take(999999), TRANSLATE_INVALID);
        }
    }
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, kernel, 0, sizeof(kernels) / sizeof(kernels[0]));
    tcase_add_test(tcase, kernel_without);
    tcase_add_loop_test(tcase, copy, 0, 8);
    tcase_add_test(tcase, peer_copy);
    tcase_add_test(tcase, fill);
    tcase_add_test(tcase, call);
    tcase_add_test(tcase, waits);
    tcase_add_test(tcase, event);
    tcase_add_test(tcase, overhead);
    tcase_add_test(tcase, memory);
    tcase_add_test(tcase, graph);
    tcase_add_test(tcase, times);
    tcase_add_test(tcase, unknown_kinds);
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
