/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated GPU's core, as its parts see it.
 *
 *     libcudart.so.12, libcudart.so.13 (cudart.c, built twice), libcudart_static.a
 *         --> libcuda.so.1 (core.c, driver.c …): devices, contexts, streams on threads of their
 *         own, events, graphs, memory
 *                 --> the tap --> libcupti.so.{11.8,12,13} (cupti.c): records in buffers, as the
 *                 real one delivers them
 *
 * The core knows nothing of CUPTI: it reports through the tap, if there is one. Real CUDA and CUPTI
 * headers give every prototype, enum and record layout, so that nothing here is a copy of what
 * cprof itself believes.
 *
 * What is not modelled stands at the top of core.c and cupti.c. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_domain { SIM_RUNTIME, SIM_DRIVER };

/* One API call in progress on a thread; lives on the stack of the simulated function. A runtime
 * call that enters the driver nests; the driver call then has the same correlation. */
struct sim_call {
    enum sim_domain domain;
    uint32_t cbid; /* CUPTI_RUNTIME_TRACE_CBID_… or CUPTI_DRIVER_TRACE_CBID_… of the real headers */
    /* process-wide counter, from 1; may be made to start near 2^32 (fault wrap=1) */
    uint32_t correlation;
    uint64_t start, end; /* filled in by the tap, on the clock it keeps */
    int result;          /* cudaError_t or CUresult, at exit */
    const char *name;    /* plain name, "cudaLaunchKernel" */
    void *args;          /* of the callback API: unused by most */
    struct sim_call *outer;
    void *tap; /* the tap's own */
};

enum sim_work_kind { SIM_KERNEL, SIM_COPY, SIM_COPY_PEER, SIM_FILL, SIM_GRAPH_WHOLE };

/* One piece of work on a device. Made at the API call, finished by the stream's thread. */
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
    uint64_t start_tap, end_tap; /* the same on the tap's clock, filled in by the tap */
    void *tap;                   /* the tap's record slot */
};

struct sim_wait {
    int type;                                             /* CUpti_ActivitySynchronizationType */
    bool query;                                           /* nobody waited */
    int result;                                           /* CUresult */
    uint32_t correlation, device, context, stream, event; /* UINT32_MAX where there is none */
    uint64_t event_sync;                                  /* of the recording waited for */
    uint64_t start_ns, end_ns;                            /* CLOCK_MONOTONIC_RAW */
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
    /* node, graph: the executable graph's; from_node, from_graph: what it was made from */
    SIM_GRAPH_NODE_CLONED,
    SIM_GRAPH_EXEC_CREATED,
    SIM_MODULE_LOADED,
    SIM_INIT_FINISHED, /* cuInit is done */
};

struct sim_resource_info {
    uint32_t device, context, stream;
    uint32_t graph, from_graph; /* ids */
    uint64_t node, from_node;   /* ids */
    int node_type;              /* CUgraphNodeType */
    void *node_handle, *from_node_handle, *graph_handle,
        *from_graph_handle; /* CUgraphNode, CUgraph */
};

/* What the simulated CUPTI implements. All may be NULL. Called without any lock of the core
 * held. */
struct sim_tap {
    void (*enter)(struct sim_call *);  /* calling thread */
    void (*leave)(struct sim_call *);  /* calling thread */
    void (*queued)(struct sim_work *); /* calling thread; the stream has not begun it */
    /* stream's thread; the work's memory stays valid until return */
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

/* How the core is asked by libcudart and libcupti; exported by libcuda.so.1 as sim_core(). */
struct sim_core {
    /* A process may have several copies of CUPTI, each with a tap of its own. The first that is
     * loaded gets all events, until another one subscribes. */
    void (*set_tap)(const struct sim_tap *tap);
    /* The one subscription of the driver; false while a copy has it, this one or another. */
    bool (*subscribe)(const struct sim_tap *tap);
    void (*unsubscribe)(const struct sim_tap *tap); /* nothing where another copy has it */
    uint32_t (*next_correlation)(void);
    /* Opens and closes an API call on this thread; the outermost call gives the correlation. */
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
    /* True when the fault is on; *value gets its number if it has one. */
    bool (*fault)(const char *name, long *value);
    /* Figures for tests: "calls" (API calls by the program, all domains), "calls.cudaMalloc",
     * "launched.kernels", "launched.copies", "launched.fills", "graph.kernels", "device_syncs" …; 0
     * when unknown. All names:
     *   calls, calls.NAME             API calls by the program (not those that the runtime makes)
     *   nested.NAME                   API calls made inside another one
     *   launched.kernels .copies (without peer) .peer_copies .fills .hostfuncs .graphs   queued
     *   outside graphs
     *   launched.bytes                of copies and fills outside graphs
     *   launched.copies.htod .dtoh .htoa .atoh .atoa .atod .dtoa .dtod .htoh .ptop
     *   graph.kernels .copies .fills  queued by graph launches
     *   done.kernels .copies .fills .graphs   finished, in and outside graphs
     *   sync.event .wait_event .stream, device_syncs   waits reported
     *   event.records, memory.allocs, memory.frees, contexts, streams */
    uint64_t (*count)(const char *name);
    /* In a child made by fork after cuInit: every call answers CUDA_ERROR_NOT_INITIALIZED and
     * reports nothing. */
    bool (*forked)(void);
    bool (*down)(void); /* the driver's handler at the end of the process has run */
    /* For libcudart: makes a context of the device current on this thread (its primary one unless a
     * context of it is) without any API call; the device of the current context, -1 without one. */
    int (*use_device)(int device);
    int (*current_device)(void);
};
const struct sim_core *sim_core(void);

/* The fault switchboard. SIM_FAULTS="name[=number],…" in the environment, or sim_fault_set() of
 * libcuda.so.1 from the program (dlsym). Each fault is read where it bites, so that it can be
 * switched in the middle of a run.
 *
 *   no_device            cuInit succeeds, cuDeviceGetCount says 0
 *   no_driver            cuInit fails with CUDA_ERROR_NO_DEVICE; CUPTI's calls answer 999 as
 *                        without a driver
 *   cupti_error=NAME:N   the CUPTI function NAME answers error N (repeatable); -1: it never answers
 *   insufficient=1       Enable answers INSUFFICIENT_PRIVILEGES
 *   other_first=1        a second client is subscribed already: cuptiSubscribe answers 39
 *   version=N            cuptiGetVersion answers N and records have that version's layout (also
 *                        999999: unknown newer)
 *   late_ms=N            completed buffers are delivered N ms later
 *   late_forced_ms=N     those of a forced flush, N ms after it has returned
 *   late_device_ms=N     of these, only one that describes a device
 *   drop=N               every N-th record of a device is dropped and counted as dropped
 *   refuse_ok=1          NULL buffers are taken as refusals also before 12.9 (else: abort, as the
 *                        real one may crash)
 *   zero_times=N         the first N kernels have start == end == 0
 *   zero_with_callback=1 all kernel times are 0 while a timestamp callback is registered (12.6U2 to
 *   13.0)
 *   default_clock=N      the first N kernels have times of the system's clock while a timestamp
 *                        callback is registered (pytorch#192021)
 *   withhold=1           a plain flush withholds each buffer that has an unfinished record (default
 *                        on; 0 turns it off)
 *   forced_unfinished=1  a forced flush returns unfinished kernels with end 0 and never again
 *                        (default on)
 *   slow_worker_ms=N     CUPTI's worker sleeps so long before each delivery
 *   shuffle=1            records of a buffer are returned in random order, device records before
 *                        and after their calls
 *   bytes_off=N          copies say N bytes more than they moved
 *   unlinked=N           every N-th kernel carries a correlation that no call has
 *   skew_ns=N            device times are off by N
 *   slew_ppm=N           the system's clock runs N millionths fast and slow in turn, 20 ms each, as
 *                        NTP may make it (with step_us: system_clock.c)
 *   step_us=N            the system's clock is set N microseconds ahead, once, 100 ms after the
 *                        program began to read it
 *   wrap=1               correlation ids start 1000 before 2^32
 *   overlap=1            kernels of one stream overlap (programmatic dependent launch)
 *   enable_ms=N          each cuptiActivityEnable of a kernel kind takes N ms
 *   no_nodes=1           nodes of graphs give no records
 *   conditional=1        nodes that fill memory say that they are conditional ones
 *   hold_flush=1         FlushAll never returns (a hung CUPTI)
 *   flush_holds_ms=N     FlushAll holds a lock for so long that the end of the process needs
 *   hold_disable=1       once there are records, a cuptiActivityDisable of a kernel kind never
 *                        returns (13.0 as first released may)
 *   hold_disable=N       the first such call takes N ms */
void sim_fault_set(const char *name, const char *value); /* value NULL: off */

#endif
