/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPU side passes to the writer: one plain record per CUPTI activity, with times in
 * clock_ticks(). cupti/translate.c makes them, writer/join/join.c joins them. cprof thread only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum gpu_kind {
    GPU_CALL,     /* a CUDA runtime or driver call on an application thread */
    GPU_KERNEL,   /* one kernel, from a launch or a graph's node */
    GPU_COPY,     /* one copy, also between devices */
    GPU_FILL,     /* one memset */
    GPU_GRAPH,    /* a whole graph launch, when nodes are not recorded */
    GPU_SYNC,     /* a wait for an event, a stream or a context */
    GPU_EVENT,    /* an event was recorded in a stream; start == end if CUPTI gives no time */
    GPU_OVERHEAD, /* time that CUPTI or the driver spent on itself */
    GPU_MEMORY,   /* driver memory was allocated or released */
};

enum gpu_flags {
    GPU_DRIVER = 1u << 0,  /* GPU_CALL: a driver call; else a runtime call */
    GPU_FAILED = 1u << 1,  /* GPU_CALL: it returned an error, so it has no effect */
    GPU_PEER = 1u << 2,    /* GPU_COPY: between two devices; `copy.peer` is set */
    GPU_RELEASE = 1u << 3, /* GPU_MEMORY: released; else allocated */
    GPU_ASYNC = 1u << 4,   /* GPU_COPY, GPU_FILL, GPU_MEMORY: asynchronous */
};

/* What a successful call causes. */
enum gpu_effect {
    EFFECT_NONE,   /* nothing that runs on the device */
    EFFECT_KERNEL, /* exactly one kernel, unless its stream is being captured */
    EFFECT_COPY,   /* usually one copy or fill; none if it is empty or stays on the host */
    EFFECT_GRAPH,  /* work for each of the graph's nodes */
    EFFECT_WAIT,   /* a GPU_SYNC */
};

/* Stands for no stream, device, context or event. */
#define GPU_NONE UINT32_MAX

struct gpu_record {
    uint8_t kind;         /* enum gpu_kind */
    uint8_t flags;        /* enum gpu_flags */
    uint16_t name_len;    /* bytes */
    uint32_t correlation; /* CUPTI's number of the call that caused it; 0: none. Wraps at 2^32 */
    uint64_t start, end;  /* clock_ticks(); end >= start */
    /* plain text (demangled), not escaped, not terminated; static. NULL: none */
    const char *name;
    uint32_t device;  /* CUDA ordinal; GPU_NONE */
    uint32_t context; /* CUPTI's context id; GPU_NONE */
    uint32_t stream;  /* CUPTI's stream id; GPU_NONE */
    uint32_t graph;   /* id of the executable graph; 0 = not from a graph */
    uint64_t node;    /* id of the graph's node; 0 = not from a graph */
    union {
        struct {
            uint32_t tid;   /* gettid() of the caller */
            uint32_t cbid;  /* CUPTI's call id */
            uint8_t effect; /* enum gpu_effect */
        } call;
        struct {
            int32_t grid[3], block[3];
            uint32_t registers;    /* per thread */
            int32_t shared_memory; /* static + dynamic, bytes per block */
            uint32_t channel, channel_type;
            int32_t priority;                  /* of the stream; meaningful if has_priority */
            float blocks_per_sm, warps_per_sm; /* -1 = unknown device */
            int16_t occupancy; /* estimated achieved occupancy, percent; -1 = unknown device */
            bool has_channel, has_priority;
            uint64_t queued_ns; /* time in the queue if CUPTI measured it, else 0 */
        } kernel;
        struct {
            uint64_t bytes;
            /* CUpti_ActivityMemcpyKind: 1 HtoD, 2 DtoH, 3 HtoA … 8 DtoD, 9 HtoH, 10 PtoP */
            uint8_t kind;
            uint8_t from_kind,
                to_kind; /* CUpti_ActivityMemoryKind: 1 pageable, 2 pinned, 3 device … */
            bool has_channel;
            uint32_t channel, channel_type;
            struct {
                uint32_t from_device, to_device, from_context, to_context;
            } peer;
        } copy; /* GPU_COPY; GPU_FILL uses bytes, to_kind and the channel */
        struct {
            /* CUpti_ActivitySynchronizationType: 1 event, 2 stream waits for event, 3 stream, 4
             * context */
            uint8_t type;
            uint32_t event; /* GPU_NONE: none */
            /* identifies the recording of the event that is waited for (CUPTI 12.8 and later); 0:
             * unknown */
            uint64_t event_sync;
            uint32_t result; /* 0: the wait succeeded, or CUPTI does not tell */
        } sync;
        struct {
            uint32_t event;
            uint64_t event_sync; /* as in sync */
        } event;
        struct {
            uint32_t tid; /* the thread that was held up; 0: none */
        } overhead;       /* its kind is in `name`, spelled as Kineto does */
        struct {
            uint64_t address, bytes;
            uint8_t kind;  /* CUpti_ActivityMemoryKind */
            uint32_t tid;  /* gettid() of the caller; 0 = unknown */
            uint64_t pool; /* address of the memory pool; 0 = none */
            uint64_t pool_used,
                pool_size; /* bytes of the pool in use, and its size; 0 where unknown */
        } memory;
    };
};

/* What the writer asks the GPU side to record. */
enum gpu_want {
    GPU_WANT_NOTHING, /* between windows: every kind is off */
    GPU_WANT_ALL,     /* a warmup or active step, or step 0 that may become the trace */
    /* from the last active step until the window's last launch is delivered: as GPU_WANT_ALL, but
     * in small buffers, because CUPTI withholds a buffer while one of its records is unfinished */
    GPU_WANT_SOON,
};

enum gpu_flush {
    GPU_FLUSH_NONE,
    GPU_FLUSH_PLAIN,  /* CUPTI returns the buffers in which all records are finished */
    GPU_FLUSH_FORCED, /* at exit after the deadline: all buffers, with unfinished records */
};

/* Counts of bad records in one gpu_source.collect(). */
struct gpu_faults {
    uint64_t dropped;    /* dropped by CUPTI for lack of a buffer */
    uint64_t untimed;    /* records without a time */
    uint64_t unfinished; /* not finished when a forced flush returned them */
    uint64_t invalid;    /* records with impossible contents */
    uint64_t unnamed;    /* records, mostly of kernels, whose name was not kept */
};

/* The GPU side's functions, called on the cprof thread only, except stop(). cupti/gpu_trace.h makes
 * the struct. */
struct gpu_source {
    /* Switches what CUPTI records. Cheap when nothing changes. Returns the ms after which it must
     * be called again; -1: no need. */
    int (*want)(enum gpu_want want);
    /* Flushes as told, then calls each() for delivered records. Returns how many; 0: there are no
     * more for now. Adds to *faults. */
    uint64_t (*collect)(enum gpu_flush flush, void (*each)(const struct gpu_record *r, void *arg),
                        void *arg, struct gpu_faults *faults);
    /* True when every buffer that CUPTI got before `ticks` has come back and was collected. */
    bool (*returned)(uint64_t ticks);
    /* Since when (ticks) CUPTI records calls. Hooked calls that start later wait for their record
     * from CUPTI. UINT64_MAX: CUPTI records no calls. */
    uint64_t (*calls_since)(void);
    /* True when CUPTI recorded calls at `ticks`, even if kinds were switched off since. */
    bool (*recorded)(uint64_t ticks);
    /* JSON text for a trace's head. devices_json: the value of deviceProperties, "[]" if there is
     * none. versions_json: lines `"cupti_version": N,`, or "". Valid until the next call. */
    const char *(*devices_json)(void);
    const char *(*versions_json)(void);
    /* Peak TFLOP/s of a device for an enum flop_class, without sparsity; 0: unknown. NULL: always
     * unknown. */
    double (*peak_tflops)(uint32_t device, unsigned flop_class);
    /* A device's name for its row ("NVIDIA H200"), or NULL. */
    const char *(*device_name)(uint32_t device);
    /* The exit deadline has passed while the cprof thread works: it begins no more calls of
     * CUPTI. Returns when no call is running, at most after 100 ms. Exiting thread. NULL: nothing
     * to do. */
    void (*stop)(void);
    /* Whether stop() was called, so CUPTI will deliver no more. NULL: never. */
    bool (*stopped)(void);
    /* At exit, after the files are complete: turns kinds off and unsubscribes; no call of CUPTI
     * follows. CUPTI may hang in it, so the exiting thread limits its wait. NULL: nothing to do. */
    void (*finish)(void);
};

/* CUpti_ActivityMemoryKind */
enum gpu_memory_kind {
    GPU_MEMORY_UNKNOWN,
    GPU_MEMORY_PAGEABLE,
    GPU_MEMORY_PINNED,
    GPU_MEMORY_DEVICE,
    GPU_MEMORY_ARRAY,
    GPU_MEMORY_MANAGED,
    GPU_MEMORY_DEVICE_STATIC,
    GPU_MEMORY_MANAGED_STATIC,
};

/* The device whose memory a GPU_MEMORY record counts for. GPU_NONE for host and managed memory, for
 * which CUPTI names the current device. */
static inline uint32_t gpu_memory_device(const struct gpu_record *r)
{
    switch (r->memory.kind) {
    case GPU_MEMORY_PAGEABLE:
    case GPU_MEMORY_PINNED:
    case GPU_MEMORY_MANAGED:
    case GPU_MEMORY_MANAGED_STATIC:
        return GPU_NONE;
    default:
        return r->device;
    }
}
