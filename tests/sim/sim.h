/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of the simulated GPU's core.
 *
 *     libcudart.so.12, libcudart.so.13 (cudart.c, built twice), libcudart_static.a
 *     --> libcuda.so.1 (core.c, driver.c …): devices, contexts, streams with a thread each,
 *     events,
 *         graphs, memory
 *             --> the tap --> libcupti.so.{11.8,12,13} (cupti.c): delivers records in buffers
 *
 * The core does not know CUPTI: it reports to the tap, if there is one. The prototypes, enums
 * and record layouts are those of the real CUDA and CUPTI headers, not copies of cprof's
 * assumptions.
 *
 * The tops of core.c and cupti.c list what is not modelled. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_domain { SIM_RUNTIME, SIM_DRIVER };

/* An API call in progress on a thread; lives on the stack of the simulated function. A driver
 * call inside a runtime call has the same correlation. */
struct sim_call {
    enum sim_domain domain;
    uint32_t cbid; /* a CUPTI_RUNTIME_TRACE_CBID_… or CUPTI_DRIVER_TRACE_CBID_… */
    /* A process-wide counter from 1. The fault wrap=1 starts it near 2^32. */
    uint32_t correlation;
    uint64_t start, end; /* set by the tap, on its clock */
    int result;          /* cudaError_t or CUresult, at exit */
    const char *name;    /* plain name, "cudaLaunchKernel" */
    void *args;          /* functionParams of the callback API, mostly NULL */
    struct sim_call *outer;
    void *tap; /* owned by the tap */
};

enum sim_work_kind { SIM_KERNEL, SIM_COPY, SIM_COPY_PEER, SIM_FILL, SIM_GRAPH_WHOLE };

/* One piece of work on a device. The API call creates it, the stream's thread finishes it. */
struct sim_work {
    enum sim_work_kind kind;
    uint32_t correlation;
    uint32_t device, context, stream; /* ids as CUPTI shows them: default stream 7 */
    char name[512];                   /* mangled kernel name */
    int grid[3], block[3], cluster[3];
    unsigned registers, static_shared, dynamic_shared;
    uint64_t bytes;
    int copy_kind, from_kind, to_kind; /* CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind */
    unsigned value;                    /* of a memset */
    bool async;
    uint32_t from_device, to_device, from_context, to_context;
    uint64_t node;               /* graph node id of the executable graph, 0 outside graphs */
    uint32_t graph;              /* executable graph id */
    uint64_t duration_ns;        /* asked for by the program */
    uint64_t start_ns, end_ns;   /* device time, CLOCK_MONOTONIC_RAW; 0 until finished */
    uint64_t start_tap, end_tap; /* start_ns and end_ns on the tap's clock, set by the tap */
    void *tap;                   /* the tap's slot for the record */
};

struct sim_wait {
    int type;                                             /* CUpti_ActivitySynchronizationType */
    bool query;                                           /* a query: nobody waited */
    int result;                                           /* CUresult */
    uint32_t correlation, device, context, stream, event; /* UINT32_MAX where there is none */
    /* of the event's recording that was waited for */
    uint64_t event_sync;
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC_RAW */
};

struct sim_event_record {
    uint32_t correlation, device, context, stream, event;
    uint64_t event_sync;
    uint64_t time_ns;
};

struct sim_memory {
    bool release, async;
    int kind; /* CUpti_ActivityMemoryKind */
    uint64_t address, bytes;
    uint32_t correlation, device, context, stream;
    uint64_t pool, pool_used, pool_size, release_threshold; /* 0: not from a pool */
    uint64_t time_ns;
    const char *name;
};

enum sim_resource {
    SIM_CONTEXT_CREATED,
    SIM_STREAM_CREATED,
    SIM_GRAPH_CREATED,
    SIM_GRAPH_NODE_CREATED, /* node, graph; also during capture, inside the captured call */
    /* node, graph: of the executable graph; from_node, from_graph: their originals */
    SIM_GRAPH_NODE_CLONED,
    SIM_GRAPH_EXEC_CREATED,
    SIM_MODULE_LOADED,
    SIM_INIT_FINISHED, /* cuInit() is done */
};

struct sim_resource_info {
    uint32_t device, context, stream;
    uint32_t graph, from_graph; /* ids */
    uint64_t node, from_node;   /* ids */
    int node_type;              /* CUgraphNodeType */
    void *node_handle, *from_node_handle, *graph_handle,
        *from_graph_handle; /* CUgraphNode, CUgraph */
};

/* The functions of the simulated CUPTI. Any may be NULL. The core calls them without holding a
 * lock. */
struct sim_tap {
    void (*enter)(struct sim_call *);  /* calling thread */
    void (*leave)(struct sim_call *);  /* calling thread */
    void (*queued)(struct sim_work *); /* calling thread, before the stream begins it */
    /* stream's thread; the work is valid until the function returns */
    void (*done)(struct sim_work *);
    void (*waited)(const struct sim_wait *);                               /* calling thread */
    void (*recorded)(const struct sim_event_record *);                     /* stream's thread */
    void (*memory)(const struct sim_memory *);                             /* calling thread */
    void (*resource)(enum sim_resource, const struct sim_resource_info *); /* calling thread */
};

struct sim_device {
    char name[64];
    uint64_t memory_bytes;
    int major, minor, sms, threads_per_sm, threads_per_block, registers_per_sm, registers_per_block,
        warp_size;
    int shared_per_block, shared_per_sm, shared_per_block_optin, max_blocks_per_sm, clock_khz;
};

/* The core's functions for libcudart and libcupti. libcuda.so.1 exports them as sim_core(). */
struct sim_core {
    /* Each copy of CUPTI in the process has a tap. The first that is loaded gets all events,
     * until another copy subscribes. */
    void (*set_tap)(const struct sim_tap *tap);
    /* Takes the driver's one subscription. False while any copy holds it. */
    bool (*subscribe)(const struct sim_tap *tap);
    void (*unsubscribe)(const struct sim_tap *tap); /* no effect if another copy holds it */
    uint32_t (*next_correlation)(void);
    /* Open and close an API call on this thread. The outermost call determines the correlation. */
    void (*call_enter)(struct sim_call *call, enum sim_domain domain, uint32_t cbid,
                       const char *name);
    void (*call_leave)(struct sim_call *call, int result);
    int (*device_count)(void);
    const struct sim_device *(*device)(int ordinal);
    uint64_t (*id_of_stream)(void *stream); /* CUstream -> CUPTI id */
    uint64_t (*id_of_context)(void *context);
    uint64_t (*id_of_node)(void *node);
    uint32_t (*id_of_graph)(void *graph);
    bool (*initialized)(void); /* cuInit was called */
    /* True while the fault is on. *value receives its number if it has one. */
    bool (*fault)(const char *name, long *value);
    /* Counters for tests; 0 for an unknown name:
     *   calls, calls.NAME             API calls by the program (without those by the runtime)
     *   nested.NAME                   API calls made inside another one
     *   launched.kernels .copies (without peer) .peer_copies .fills .hostfuncs .graphs
     *                                 queued outside graphs
     *   launched.bytes                of copies and fills outside graphs
     *   launched.copies.htod .dtoh .htoa .atoh .atoa .atod .dtoa .dtod .htoh .ptop
     *   graph.kernels .copies .fills  queued by graph launches
     *   done.kernels .copies .fills .graphs   finished, in and outside graphs
     *   sync.event .wait_event .stream, device_syncs   waits reported
     *   event.records, memory.allocs, memory.frees, contexts, streams */
    uint64_t (*count)(const char *name);
    /* In a child forked after cuInit(), every call returns CUDA_ERROR_NOT_INITIALIZED and
     * reports nothing. */
    bool (*forked)(void);
    bool (*down)(void); /* the driver's exit handler has run */
    /* For libcudart: use_device() makes the device's primary context current on this thread,
     * unless a context of that device is. It opens no API call. current_device() returns the
     * current context's device, or -1. */
    int (*use_device)(int device);
    int (*current_device)(void);
};
const struct sim_core *sim_core(void);

/* Faults. Set by SIM_FAULTS="name[=number],…" in the environment, or by the program with
 * sim_fault_set() of libcuda.so.1 (dlsym). Most are read at each use and can change during a run.
 *
 *   no_device            cuInit succeeds, cuDeviceGetCount returns 0 devices
 *   no_driver            cuInit fails with CUDA_ERROR_NO_DEVICE; CUPTI's calls return 999 as
 *                        without a driver
 *   cupti_error=NAME:N   the CUPTI function NAME returns error N (repeatable); -1: never returns
 *   insufficient=1       Enable returns INSUFFICIENT_PRIVILEGES
 *   other_first=1        another client is subscribed already: cuptiSubscribe returns 39
 *   version=N            cuptiGetVersion returns N and records have that version's layout (also
 *                        999999: unknown newer)
 *   late_ms=N            completed buffers are delivered N ms later
 *   late_forced_ms=N     buffers of a forced flush are delivered N ms after its return
 *   late_device_ms=N     only buffers with a DEVICE record are delivered N ms later
 *   drop=N               every N-th record of a device is dropped and counted as dropped
 *   refuse_ok=1          a NULL buffer is a refusal also before 12.9 (else: abort, as the real
 *                        CUPTI may crash)
 *   zero_times=N         the first N kernels have start == end == 0
 *   zero_with_callback=1 all kernel times are 0 while a timestamp callback is registered (12.6U2
 *                        to 13.0)
 *   default_clock=N      the first N kernels have times of the system's clock while a timestamp
 *                        callback is registered (pytorch#192021)
 *   withhold=1           a plain flush withholds each buffer with an unfinished record (default;
 *                        0 turns it off)
 *   forced_unfinished=1  a forced flush delivers unfinished kernels with end 0 and never again
 *                        (default)
 *   slow_worker_ms=N     CUPTI's worker sleeps N ms before each delivery
 *   shuffle=1            records of a buffer come in random order, device records before and after
 *                        their calls
 *   bytes_off=N          copies report N bytes more than they moved
 *   unlinked=N           every N-th kernel has a correlation that no call has
 *   skew_ns=N            device times are off by N ns
 *   slew_ppm=N           the system's clock runs N ppm fast and slow in turn, 20 ms each, as NTP
 *                        may make it (with step_us: system_clock.c)
 *   step_us=N            the system's clock is set N us ahead, once, 100 ms after the program's
 *                        first reading
 *   hold_launch_ms=N     each launch of a kernel returns N ms after the device has it, as when its
 *                        thread is preempted
 *   wrap=1               correlation ids start 1000 before 2^32
 *   mig=1                CUPTI's records say that the devices are divided (MIG)
 *   overlap=1            kernels of one stream overlap (programmatic dependent launch)
 *   enable_ms=N          each cuptiActivityEnable of a kernel kind takes N ms
 *   no_nodes=1           nodes of graphs have no records
 *   conditional=1        fill nodes are reported as conditional nodes
 *   hold_flush=1         FlushAll never returns (a hung CUPTI)
 *   flush_holds_ms=N     FlushAll holds for N ms a lock that the end of the process needs
 *   hold_disable=1       once there are records, a cuptiActivityDisable of a kernel kind never
 *                        returns (13.0 as first released may)
 *   hold_disable=N       the first such call takes N ms */
void sim_fault_set(const char *name, const char *value); /* value NULL: off */
