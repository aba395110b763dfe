/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPU side hands to the writer: one plain record per CUPTI activity, its times already in
 * clock_ticks(). cupti/translate.c makes them, writer/join/join.c joins them. cprof thread only. */
#ifndef WRITER_RECORD_GPU_RECORD_H
#define WRITER_RECORD_GPU_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum gpu_kind {
    GPU_CALL,     /* a CUDA runtime or driver call on an application thread */
    GPU_KERNEL,   /* one kernel, of a launch or of a graph's node */
    GPU_COPY,     /* one copy, between devices too */
    GPU_FILL,     /* one memset */
    GPU_GRAPH,    /* a graph launch as a whole, where nodes are not asked for */
    GPU_SYNC,     /* a wait for an event, a stream or a context */
    GPU_EVENT,    /* an event was recorded in a stream; start == end where CUPTI gives no time */
    GPU_OVERHEAD, /* time that CUPTI or the driver took for itself */
    GPU_MEMORY,   /* driver memory was allocated or released */
};

enum gpu_flags {
    GPU_DRIVER = 1u << 0,  /* GPU_CALL: a driver call; else a runtime call */
    GPU_FAILED = 1u << 1,  /* GPU_CALL: it returned an error, so nothing follows from it */
    GPU_PEER = 1u << 2,    /* GPU_COPY: between two devices; `copy.peer` is set */
    GPU_RELEASE = 1u << 3, /* GPU_MEMORY: released; else allocated */
    GPU_ASYNC = 1u << 4,   /* GPU_COPY, GPU_FILL, GPU_MEMORY: asynchronous */
};

/* What follows from a call when it succeeds. */
enum gpu_effect {
    EFFECT_NONE,   /* nothing that runs on the device */
    EFFECT_KERNEL, /* exactly one kernel, unless its stream is being captured */
    EFFECT_COPY,   /* usually one copy or fill; none when it is empty or stays on the host */
    EFFECT_GRAPH,  /* as many as the graph has nodes */
    EFFECT_WAIT,   /* a GPU_SYNC */
};

/* Where a record has no stream, device, context or event. */
#define GPU_NONE UINT32_MAX

struct gpu_record {
    uint8_t kind;         /* enum gpu_kind */
    uint8_t flags;        /* enum gpu_flags */
    uint16_t name_len;    /* bytes */
    uint32_t correlation; /* CUPTI's, of the call that caused it; 0 = none. Wraps at 2^32 */
    uint64_t start, end;  /* clock_ticks(); end >= start */
    /* plain text (demangled), not escaped, not terminated; lives as long as the process. NULL:
     * none */
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
            uint64_t queued_ns; /* time in the queue where CUPTI measured it, else 0 */
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
            /* names the very recording waited for (CUPTI 12.8 and newer); 0 = unknown */
            uint64_t event_sync;
            uint32_t result; /* 0 = the wait succeeded, or CUPTI does not say */
        } sync;
        struct {
            uint32_t event;
            uint64_t event_sync; /* as in sync */
        } event;
        struct {
            uint32_t tid; /* of the thread that it held up; 0 = none */
        } overhead;       /* name says what it was, as Kineto spells it */
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

/* What the writer wants from the GPU side now. */
enum gpu_want {
    GPU_WANT_NOTHING, /* between windows: every kind is off */
    GPU_WANT_ALL,     /* a warmup or active step, or step 0 that may become the trace */
    /* the last active step, and from then on until the window's last launch was delivered: as
     * before, in small buffers, because a buffer is withheld while one of its records is unfinished
     * (T13) */
    GPU_WANT_SOON,
};

enum gpu_flush {
    GPU_FLUSH_NONE,
    GPU_FLUSH_PLAIN,  /* CUPTI returns every buffer whose records are all finished */
    GPU_FLUSH_FORCED, /* at exit after the deadline: all buffers, unfinished records included */
};

/* How the records that came in one gpu_source.collect() went wrong. */
struct gpu_faults {
    uint64_t dropped;    /* by CUPTI, which had no buffer */
    uint64_t untimed;    /* records without a time */
    uint64_t unfinished; /* not finished when a forced flush returned them */
    uint64_t invalid;    /* records that make no sense */
    uint64_t unnamed;    /* kernels, mostly, whose name was not kept */
};

/* The GPU side as the cprof thread sees it; all functions but stop() are called on that thread.
 * cupti/gpu_trace.h makes one. */
struct gpu_source {
    /* Switches what CUPTI records. Cheap when nothing changes. Returns after how many ms it is to
     * be called again though nothing else happens; -1: it need not. */
    int (*want)(enum gpu_want want);
    /* Flushes if told to, then calls each() for the records delivered so far, or many of them: 0 is
     * returned when there are no more. *faults is added to. */
    uint64_t (*collect)(enum gpu_flush flush, void (*each)(const struct gpu_record *r, void *arg),
                        void *arg, struct gpu_faults *faults);
    /* True when every buffer that CUPTI got before `ticks` has come back (and was collected). */
    bool (*returned)(uint64_t ticks);
    /* Since when CUPTI records calls: hooked calls that start later than this wait for CUPTI's
     * record of theirs. UINT64_MAX: it does not. */
    uint64_t (*calls_since)(void);
    /* True when CUPTI recorded calls at `ticks`, which may be before kinds were switched off. NULL:
     * as calls_since. */
    bool (*recorded)(uint64_t ticks);
    /* JSON text for the head of a trace: the value of deviceProperties ("[]" when there is nothing
     * to say), and `"cupti_version": N,\n` pairs or "". Valid until the next call. */
    const char *(*devices_json)(void);
    const char *(*versions_json)(void);
    /* Most TFLOP/s of a device for numbers of an enum flop_class, without sparsity; 0 = not known.
     * NULL: never known. */
    double (*peak_tflops)(uint32_t device, unsigned flop_class);
    /* Name of a device for its row ("NVIDIA H200"), or NULL. */
    const char *(*device_name)(uint32_t device);
    /* The time at exit is over, and the cprof thread is not done: from now on it begins no call of
     * CUPTI. Returns when none is under way, after 100 ms at the latest. Exiting thread. NULL:
     * nothing to do. */
    void (*stop)(void);
    /* Whether stop() was called: what CUPTI still has will not come. NULL: never. */
    bool (*stopped)(void);
    /* At exit, when the files are whole: kinds off, subscription given up, no further call of
     * CUPTI. May hang as CUPTI does: the exiting thread does not wait for it for ever. NULL:
     * nothing to do. */
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

/* The device that a GPU_MEMORY record counts for. GPU_NONE for host and managed memory, which is no
 * device's own and for which CUPTI names the device that happened to be current. */
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

#endif
