/* SPDX-License-Identifier: Apache-2.0 */
/* Inside libcuda.so.1: the objects behind the driver's handles, and what its files offer each
 * other.
 *
 *     driver*.c (cu… functions) -> graph.c, work.c, memory.c -> stream.c (queues, threads,
 *     events)
 *     -> core.c (tap, calls)
 *
 * Locks are leaves: a holder calls no function of another file and no tap. */
#pragma once

#include <cuda.h>
#include <cupti_driver_cbid.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/sim/image.h"
#include "tests/sim/sim.h"

#if CUDA_VERSION < 13000
#error "the simulated GPU needs the headers of CUDA 13 (scripts/setup.sh finds or installs them)"
#endif

#define NOT_AN_ID   UINT32_MAX
#define MAX_DEVICES 16
/* A launch waits while its stream has this many unfinished items, as with the real driver. */
#define QUEUE_LENGTH 1024

/* ---- core.c: calls, counters, faults, clock ---- */

/* Opens a call of the driver API. Returns CUDA_SUCCESS, or the error that the function must
 * return at once: CUDA is not initialised, or the process was forked. */
CUresult sim_begin(struct sim_call *call, uint32_t cbid, const char *name, bool needs_init);
/* Closes the call and returns the result. */
CUresult sim_end(struct sim_call *call, CUresult result);
/* Opens a call that needs no cuInit(). */
#define ENTER_EARLY(name)                                                                          \
    struct sim_call call_;                                                                         \
    CUresult refused_ = sim_begin(&call_, CUPTI_DRIVER_TRACE_CBID_##name, #name, false);           \
    if (refused_)                                                                                  \
    return refused_
#define ENTER(name)                                                                                \
    struct sim_call call_;                                                                         \
    CUresult refused_ = sim_begin(&call_, CUPTI_DRIVER_TRACE_CBID_##name, #name, true);            \
    if (refused_)                                                                                  \
    return refused_
/* For functions with a _ptsz or _ptds twin. twin_ says whether the twin was called; STREAM(s)
 * resolves the NULL stream accordingly. */
#define ENTER_TWIN(name, suffix)                                                                   \
    struct sim_call call_;                                                                         \
    bool twin_ = sim_take_twin();                                                                  \
    CUresult refused_ =                                                                            \
        twin_ ? sim_begin(&call_, CUPTI_DRIVER_TRACE_CBID_##name##suffix, #name, true)             \
              : sim_begin(&call_, CUPTI_DRIVER_TRACE_CBID_##name, #name, true);                    \
    if (refused_)                                                                                  \
    return refused_
#define ENTER_Z(name)     ENTER_TWIN(name, _ptsz)
#define ENTER_D(name)     ENTER_TWIN(name, _ptds)
#define STREAM(handle)    sim_stream((handle), twin_)
#define LEAVE(expression) return sim_end(&call_, (expression))

/* Correlation of the call in progress on this thread. */
uint32_t sim_correlation(void);
/* The devices' clock: CLOCK_MONOTONIC_RAW in ns, because NTP slews no GPU's clock. */
uint64_t sim_now(void);
/* The tap; functions that it leaves out do nothing. */
const struct sim_tap *sim_tap(void);
bool sim_fault(const char *name, long *value);
/* Faults that every piece of work reads, as plain variables. */
extern _Atomic long sim_skew_ns, sim_hold_launch_ms;
extern _Atomic bool sim_overlap;
/* In a child of fork(): every call fails. */
extern _Atomic bool sim_forked;
CUresult sim_init(void);

enum sim_figure {
    FIGURE_KERNELS,
    FIGURE_COPIES,
    FIGURE_PEER_COPIES,
    FIGURE_FILLS,
    FIGURE_HOSTFUNCS,
    FIGURE_BYTES,
    FIGURE_GRAPHS,
    FIGURE_GRAPH_KERNELS,
    FIGURE_GRAPH_COPIES,
    FIGURE_GRAPH_FILLS,
    FIGURE_DONE_KERNELS,
    FIGURE_DONE_COPIES,
    FIGURE_DONE_FILLS,
    FIGURE_DONE_GRAPHS,
    FIGURE_RECORDS,
    FIGURE_ALLOCS,
    FIGURE_FREES,
    FIGURE_CONTEXTS,
    FIGURE_STREAMS,
    FIGURE_SYNC,                   /* one for each of the 5 CUpti_ActivitySynchronizationType */
    FIGURE_KIND = FIGURE_SYNC + 5, /* one for each of the 11 CUpti_ActivityMemcpyKind */
    N_FIGURES = FIGURE_KIND + 11,
};
void sim_add(enum sim_figure figure, uint64_t n);

/* ---- device.c ---- */

struct CUctx_st {
    uint32_t id;
    int device;
    bool primary;
    atomic_bool destroyed;
    pthread_mutex_t lock; /* guards the list of streams and the fields below */
    struct CUstream_st *streams;
    struct CUstream_st *legacy;
    uint32_t last_stream;
    atomic_uint last_event;
    unsigned flags;
    struct CUctx_st *next_dead;
};

int sim_device_count(void);
const struct sim_device *sim_device(int ordinal);
/* The calling thread's current context, or NULL. */
CUcontext sim_context(void);
void sim_set_context(CUcontext context);
CUcontext sim_new_context(int device, bool primary);
/* Waits for the context's work and ends its streams. */
void sim_end_context(CUcontext context);
/* The device's primary context, created if there is none. */
CUcontext sim_primary(int device);
/* For libcudart: makes the device's primary context current, unless a context of that device is.
 * Opens no API call. */
CUresult sim_use_device(int device);
/* For libcudart: the device of the current context, or -1. */
int sim_current_device(void);

/* ---- stream.c ---- */

struct action {
    void (*run)(struct action *);
    void *to;
    const void *from;
    size_t width, height, depth, to_pitch, from_pitch, to_slice, from_slice;
    void *staged; /* copy of pageable source memory, freed after the copy */
    unsigned value, element;
    const struct sim_kernel *kernel;
    bool has_args;
    CUhostFn host;
    void *user;
    unsigned char args[SIM_ARGS_BYTES];
};

struct op {
    struct action action;
    struct sim_work work;
};

/* A point in a stream's order, reference counted. */
struct mark {
    atomic_int references;
    struct CUstream_st *stream;
    uint64_t sequence;
    uint64_t time_ns; /* set by the stream's thread */
    uint64_t event_sync;
    uint32_t event, correlation;
};

struct graph_run;
enum item_kind { ITEM_WORK, ITEM_HOST, ITEM_MARK, ITEM_WAIT, ITEM_GRAPH, ITEM_RELEASE };

struct item {
    struct item *next;
    enum item_kind kind;
    uint64_t sequence;
    uint64_t queued_ns;
    struct mark *mark;
    struct graph_run *run;
    void *memory;
    struct op op; /* last: sim_item() does not clear it as a whole */
};

struct capture;

struct CUstream_st {
    struct CUctx_st *context;
    struct CUstream_st *next; /* next in the context's list */
    uint32_t id;
    unsigned flags;
    int priority;
    bool legacy;
    atomic_int references;

    pthread_mutex_t lock;
    pthread_cond_t wake; /* the stream's thread sleeps here */
    pthread_cond_t done; /* threads that wait for the stream sleep here */
    struct item *head, *tail, *spare;
    int n_spare;
    atomic_ullong queued;    /* sequence of the last item queued; written under the lock */
    atomic_ullong finished;  /* sequence of the last item done */
    atomic_ullong notify_at; /* a thread waits for this sequence */
    bool started, idle, closing;
    struct mark *tail_mark;   /* newest mark, for waiting until the stream is empty */
    struct mark *legacy_seen; /* mark of the legacy stream that this stream already waits for */
    uint64_t busy_until, last_start; /* used by the stream's thread only */

    struct capture *capture;
    struct CUgraphNode_st **tips; /* last captured nodes */
    int n_tips;
};

struct CUevent_st {
    struct CUctx_st *context;
    uint32_t id;
    unsigned flags;
    pthread_mutex_t lock;
    struct mark *mark;
    struct capture *capture; /* the capture that the event was recorded in */
    struct CUgraphNode_st **tips;
    int n_tips;
};

CUstream sim_new_stream(CUcontext context, unsigned flags, int priority);
/* Finishes the queued work and frees the stream. The handle is invalid afterwards. */
void sim_end_stream(CUstream stream);
/* Resolves a handle in the current context. NULL: there is no context. */
CUstream sim_stream(CUstream handle, bool per_thread);
/* A cleared item for this stream. Waits while the queue is full. */
struct item *sim_item(CUstream stream, enum item_kind kind);
/* Queues the item behind the waits that the legacy default stream's rules require. */
void sim_queue(CUstream stream, struct item *item);
/* Waits until everything queued so far is done. */
void sim_wait_stream(CUstream stream);
void sim_wait_mark(struct mark *mark);
bool sim_mark_done(const struct mark *mark);
bool sim_stream_done(CUstream stream);
void sim_wait_context(CUcontext context);
void sim_report_query(int type, CUcontext context, CUstream stream, CUevent event,
                      uint64_t event_sync, CUresult result);
void sim_report_wait(int type, CUcontext context, CUstream stream, CUevent event,
                     uint64_t event_sync, uint64_t start_ns);
struct mark *sim_new_mark(CUstream stream);
void sim_drop_mark(struct mark *mark);
/* Called last by a stream's thread. */
void sim_end_worker(CUstream stream);
/* Queues the mark and returns a reference to it. */
struct mark *sim_queue_mark(CUstream stream, struct mark *mark);
void sim_queue_wait(CUstream stream, struct mark *mark);

/* ---- worker.c ---- */

/* The function of a stream's thread. */
void *sim_worker(void *stream);

/* ---- work.c ---- */

struct CUfunc_st {
    struct sim_kernel kernel;
    char *name;
    struct CUmod_st *module;
    struct CUfunc_st *next;
    bool any_args; /* the sizes of the arguments are unknown */
};

struct CUmod_st {
    const struct sim_image *image; /* NULL: not an image of image.h */
    pthread_mutex_t lock;
    struct CUfunc_st *functions;
};

struct launch {
    CUfunction function;
    unsigned grid[3], block[3], cluster[3], shared;
    void **args;
};

struct copy {
    void *to;
    const void *from;
    size_t width, height, depth, to_pitch, from_pitch, to_slice, from_slice;
    int kind;               /* CUpti_ActivityMemcpyKind; 0: derived from the pointers */
    int to_kind, from_kind; /* CUpti_ActivityMemoryKind; 0: derived from the pointers */
    bool peer;
    CUcontext to_context, from_context; /* of a peer copy */
};

struct fill {
    void *to;
    size_t width, height, pitch; /* width in elements */
    unsigned value, element;
};

/* Each queues one piece of work, or adds a node if the stream is being captured. A NULL stream
 * means that there is no context. */
CUresult sim_launch(CUstream stream, const struct launch *launch);
CUresult sim_copy(CUstream stream, const struct copy *copy, bool async);
CUresult sim_fill(CUstream stream, const struct fill *fill, bool async);
CUresult sim_host(CUstream stream, CUhostFn function, void *user);
/* Fill in an op for a node of a graph, without queueing it. */
CUresult sim_make_launch(struct op *op, const struct launch *launch);
void sim_make_copy(struct op *op, const struct copy *copy);
void sim_make_fill(struct op *op, const struct fill *fill);

/* ---- memory.c ---- */

struct CUmemPoolHandle_st {
    uint64_t id;
    int device;
    atomic_ullong used, reserved, used_high, reserved_high, threshold;
    bool is_default;
    struct CUmemPoolHandle_st *next;
};

struct allocation {
    uintptr_t address;
    size_t bytes;
    int kind; /* CUpti_ActivityMemoryKind */
    int device;
    bool foreign; /* memory of the program, registered with CUDA */
    bool async;
    uint32_t context, stream;
    unsigned flags;
    CUmemoryPool pool;
};

CUresult sim_allocate(void **pointer, size_t bytes, int kind, unsigned flags, const char *name);
CUresult sim_allocate_async(void **pointer, size_t bytes, CUmemoryPool pool, CUstream stream,
                            const char *name);
CUresult sim_free(void *pointer, const char *name);
CUresult sim_free_async(void *pointer, CUstream stream, const char *name);
CUresult sim_register(void *pointer, size_t bytes, unsigned flags);
CUresult sim_unregister(void *pointer);
/* Copies the allocation that contains the pointer to *found. False: there is none. */
bool sim_find(const void *pointer, struct allocation *found);
/* The CUpti_ActivityMemoryKind of the memory. *device receives its device, -1 for the host's. */
int sim_memory_kind(const void *pointer, int *device);
uint64_t sim_memory_used(int device);
CUmemoryPool sim_default_pool(int device);
CUmemoryPool sim_device_pool(int device);
void sim_set_device_pool(int device, CUmemoryPool pool);
CUmemoryPool sim_new_pool(int device, bool is_default);
/* Frees all that the context allocated. */
void sim_free_context(uint32_t context);

struct CUarray_st {
    void *memory;
    size_t width, height, depth, element; /* width in elements */
    CUarray_format format;
    unsigned channels;
};

/* ---- graph.c, capture.c ---- */

enum node_kind { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST, NODE_EMPTY };

struct CUgraphNode_st {
    uint64_t id;
    enum node_kind kind;
    struct CUgraph_st *graph;
    struct CUgraphNode_st **before;
    int n_before;
    int index; /* position in the graph's list */
    struct op op;
};

struct CUgraph_st {
    uint32_t id;
    struct CUgraphNode_st **nodes;
    int n_nodes, room;
    bool internal; /* being captured, or the copy inside an executable graph */
};

struct CUgraphExec_st {
    struct CUgraph_st *graph; /* a copy whose nodes stand behind those they depend on */
    uint32_t id;
    uint32_t device;
    atomic_int references;
};

/* One launch of an executable graph: the works of its nodes. */
struct graph_run {
    struct CUgraphExec_st *exec;
    int n;
    struct op *ops; /* one for each node, in order */
    uint64_t *ends;
    struct sim_work whole;
};

struct capture {
    struct CUgraph_st *graph;
    CUstream origin;
    CUstreamCaptureMode mode;
    bool broken;
    uint64_t id;
    pthread_t thread;
    atomic_int references;
};

/* Adds a node and reports it to the tap. NULL: failed. */
CUgraphNode sim_add_node(CUgraph graph, enum node_kind kind, const struct op *op,
                         const CUgraphNode *before, size_t n);
CUgraph sim_new_graph(bool internal);
void sim_free_graph(CUgraph graph);
CUresult sim_instantiate(CUgraphExec *exec, CUgraph graph);
CUresult sim_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info);
CUresult sim_launch_graph(CUgraphExec exec, CUstream stream);
void sim_drop_exec(CUgraphExec exec);
/* Called after the run's last node. */
void sim_free_run(struct graph_run *run);

/* True when the stream is being captured: the op became a node, or the capture broke (*result). */
bool sim_captured(CUstream stream, enum node_kind kind, const struct op *op, CUresult *result);
bool sim_captured_graph(CUstream stream, CUgraphExec exec, CUresult *result);
bool sim_capture_record(CUstream stream, CUevent event);
bool sim_capture_wait(CUstream stream, CUevent event, CUresult *result);
CUresult sim_capture_begin(CUstream stream, CUstreamCaptureMode mode);
CUresult sim_capture_end(CUstream stream, CUgraph *graph);
/* Returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and breaks the capture if the call is forbidden
 * during a capture. stream NULL: the call concerns no single stream, like cuMemAlloc(). */
CUresult sim_capture_forbids(CUstream stream);
CUstreamCaptureMode sim_capture_exchange(CUstreamCaptureMode mode);
void sim_event_forget(CUevent event);
void sim_capture_forget(CUstream stream);

/* ---- twin.h has sim_take_twin() ---- */
#include "tests/sim/twin.h"
