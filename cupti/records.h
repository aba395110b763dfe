/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of CUPTI's activity records that cprof reads, so that the build needs no CUDA headers.
 * CUPTI writes its own newest struct, whatever a client was compiled against, and only ever appends
 * fields. Each struct here is that of CUDA 11.8; fields below a line `from NNN` need that version
 * (cuptiGetVersion). Never read such a field without checking the version. Never take a stride from
 * sizeof: cuptiActivityGetNextRecord() knows it. tests/unit/cupti/test_records.c checks every
 * offset against the real headers. cprof thread. */
#pragma once

#include <stdint.h>

/* cuptiGetVersion() counts by one until 12.9, then is xxyyzz. The libraries of 11.8, 12.0 and 12.1
 * all return 18. */
enum cupti_version {
    CUPTI_11_8 = 18,
    CUPTI_12_3 = 21,
    CUPTI_12_4 = 22,
    CUPTI_12_8 = 26,
    CUPTI_13_1 = 130100,
    CUPTI_13_5 = 130500,
};

/* CUpti_ActivityKind */
enum cupti_kind {
#define KIND(id, number, when, translator) CUPTI_KIND_##id = (number),
#include "cupti/kinds.def"
#undef KIND
};

/* Records are 8-byte aligned in CUPTI's buffers. Each field below is naturally aligned. */

/* CUpti_ActivityKernel8 (11.8). 9 (12.0) and 10 (13.0) append nothing that cprof reads; 11 (13.1)
 * the priority. */
struct cupti_kernel {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t partitioned_requested, partitioned_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t static_shared, dynamic_shared;
    uint32_t local_per_thread, local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name; /* mangled; CUPTI owns it and shares it; NULL in broken modules */
    void *reserved;
    uint64_t queued, submitted; /* 0 unless a client enabled latency time stamps */
    uint8_t launch_type, carveout_is_requested, carveout_requested, padding;
    uint32_t shared_executed;
    uint64_t node;
    uint32_t shared_limit_config;
    uint32_t graph;
    void *access_policy;
    uint32_t channel, channel_type;
    uint32_t cluster[3], cluster_policy;
    uint64_t local_total_64;
    /* from 12.0 */
    uint32_t cluster_most, cluster_active;
    /* from 13.0 */
    uint8_t device_launched, padding3[7];
    /* from 13.1 */
    int32_t priority;
};

/* CUpti_ActivityMemcpy5 (11.8). 6 (12.8) and 7 append nothing that cprof reads. */
struct cupti_copy {
    uint32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint32_t runtime_correlation, pad;
    void *reserved;
    uint64_t node;
    uint32_t graph, channel, channel_type;
};

/* CUpti_ActivityMemcpyPtoP4 (11.8 to 13.5) */
struct cupti_peer_copy {
    uint32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t from_device, from_context, to_device, to_context;
    uint32_t correlation;
    void *reserved;
    uint64_t node;
    uint32_t graph, channel, channel_type;
};

/* CUpti_ActivityMemset4 (11.8). 5 appends nothing that cprof reads. */
struct cupti_fill {
    uint32_t kind;
    uint32_t value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
    uint32_t pad;
    void *reserved;
    uint64_t node;
    uint32_t graph, channel, channel_type;
};

/* CUpti_ActivityAPI (all versions) */
struct cupti_call {
    uint32_t kind;
    uint32_t cbid;
    uint64_t start, end;
    uint32_t pid, tid; /* tid: gettid(), by cuptiSetThreadIdType() */
    uint32_t correlation;
    uint32_t result;
};

/* CUpti_ActivitySynchronization (11.8), 2 (12.8) */
struct cupti_sync {
    uint32_t kind;
    uint32_t type;
    uint64_t start, end;
    uint32_t correlation, context;
    uint32_t stream, event; /* UINT32_MAX: does not apply */
    /* from 12.8 */
    uint64_t event_sync; /* UINT32_MAX: does not apply */
    uint32_t result;
};

/* CUpti_ActivityCudaEvent (11.8), 2 (12.8), 3 (13.5) */
struct cupti_event {
    uint32_t kind;
    uint32_t correlation, context, stream, event, pad;
    /* from 12.8 */
    uint32_t device, pad2;
    void *reserved;
    uint64_t device_time; /* 0 without cuptiActivityEnableCudaEventDeviceTimestamps() */
    uint64_t event_sync;
    /* from 13.5 */
    uint64_t node;
    uint32_t graph;
};

/* CUpti_ActivityOverhead (11.8), 2 (12.3), 3 (12.4) */
struct cupti_overhead {
    uint32_t kind;
    uint32_t overhead_kind;
    uint32_t object_kind;
    union {
        struct {
            uint32_t pid, tid;
        } thread;
        struct {
            uint32_t device, context, stream;
        } device;
    } object;
    uint64_t start, end;
    /* from 12.3 */
    uint32_t correlation, reserved;
    /* from 12.4 */
    void *data; /* cprof frees it */
};

/* CUpti_ActivityMemory3 (11.8). 4 (12.6) appends nothing that cprof reads. */
struct cupti_memory {
    uint32_t kind;
    uint32_t operation;
    uint32_t memory_kind;
    uint32_t correlation;
    uint64_t address, bytes, time, pc;
    uint32_t pid, device, context, stream;
    const char *name;
    uint32_t is_async, pad;
    struct {
        uint32_t type, pad; /* CUpti_ActivityMemoryPoolType */
        uint64_t address, release_threshold;
        uint64_t size; /* for an imported pool, the pid */
        uint64_t used;
    } pool;
};

/* CUpti_ActivityGraphTrace (11.8). 2 (12.3) appends where the last node ran. */
struct cupti_graph {
    uint32_t kind;
    uint32_t correlation;
    uint64_t start, end;
    uint32_t device; /* INT_MAX: the first node runs on the host */
    uint32_t graph;
    uint32_t context; /* as device */
    uint32_t stream;
};

/* CUpti_ActivityDevice4 (11.8). 5 and 6 append nothing that cprof reads. */
struct cupti_device {
    uint32_t kind;
    uint32_t flags;
    uint64_t bandwidth, memory;
    uint32_t constant_memory, l2_cache;
    uint32_t warp_size;
    uint32_t clock_rate, copy_engines;
    uint32_t sms;
    uint32_t most_ipc;
    uint32_t warps_per_sm, blocks_per_sm, shared_per_sm, registers_per_sm;
    uint32_t registers_per_block, shared_per_block, threads_per_block;
    uint32_t most_block[3], most_grid[3];
    uint32_t major, minor;
    uint32_t id;
    uint32_t ecc;
    uint8_t uuid[16];
    const char *name;
    uint8_t is_visible, is_mig;
};

/* CUpti_ActivityContext (11.8). Later versions append nothing that cprof reads. */
struct cupti_context {
    uint32_t kind;
    uint32_t context, device;
    uint16_t api, null_stream;
};
