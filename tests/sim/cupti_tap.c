/* SPDX-License-Identifier: Apache-2.0 */
/* Makes records and callbacks of the core's events. */
#include "tests/sim/cupti_sim.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Flags in sim_call.tap, set when the call begins. */
#define CALL_SEEN     ((uintptr_t)1)
#define CALL_RECORDED ((uintptr_t)2)
#define CALL_CALLED   ((uintptr_t)4) /* the subscriber got the enter callback */

static bool on(uint32_t kind, uint32_t context)
{
    return sim_kind_on(kind, context);
}

static bool armed(void)
{
    return atomic_load_explicit(&sim_settings.armed, memory_order_relaxed);
}

/* ---- API calls ---- */

/* CUDA calls inside the client's functions deadlock the real CUPTI or corrupt its state. */
static void forbid(const struct thread *self, const struct sim_call *call)
{
    if (self->inside == IN_API_CALLBACK && strstr(call->name, "Synchronize"))
        return;
    static const char *const where[] = {"",
                                        "bufferRequested",
                                        "bufferCompleted",
                                        "the timestamp callback",
                                        "an API callback",
                                        "a resource callback"};
    sim_die("%s called from %s", call->name, where[self->inside]);
}

static bool wanted(const struct sim_call *call)
{
    return call->cbid < CALLS &&
           atomic_load_explicit(&sim_settings.call[call->domain][call->cbid], memory_order_relaxed);
}

static void on_enter(struct sim_call *call)
{
    if (!armed())
        return;
    struct thread *self = sim_self();
    if (self->inside != IN_NOTHING)
        forbid(self, call);
    uintptr_t what = CALL_SEEN;
    unsigned depth = self->depth++;
    if (depth < DEPTH && sim_called_back(call->domain, call->cbid)) {
        what |= CALL_CALLED;
        sim_callback_api(call, false, depth);
    }
    if (wanted(call) && !self->cut_off) {
        what |= CALL_RECORDED;
        call->start = sim_now();
    }
    call->tap = (void *)what;
}

static void put_external(struct thread *self, uint32_t correlation)
{
    for (int kind = 1; kind < EXTERNALS; kind++) {
        if (!self->external_n[kind])
            continue;
        CUpti_ActivityExternalCorrelation record = {
            .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
            .externalKind = (CUpti_ExternalCorrelationKind)kind,
            .externalId = self->external[kind][self->external_n[kind] - 1],
            .correlationId = correlation,
        };
        sim_put(&record);
    }
}

static void put_call(struct thread *self, const struct sim_call *call)
{
    bool runtime = call->domain == SIM_RUNTIME;
    CUpti_ActivityAPI record = {
        .kind = runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER,
        .cbid = call->cbid,
        .start = call->start,
        .end = call->end,
        .processId = (uint32_t)getpid(),
        .threadId = atomic_load_explicit(&sim_settings.system_threads, memory_order_relaxed)
                        ? self->system_id
                        : self->pthread_id,
        .correlationId = call->correlation,
        .returnValue = (uint32_t)call->result,
    };
    sim_put(&record);
}

static void put_devices(void);

static void initialized(bool well)
{
    static _Atomic bool already;
    if (well && !atomic_exchange(&already, true) && on(CUPTI_ACTIVITY_KIND_DEVICE, 0))
        put_devices();
}

static void on_leave(struct sim_call *call)
{
    uintptr_t what = (uintptr_t)call->tap;
    /* cuInit() adds the DEVICE records, also if an injected client enables the kind during it. */
    if (call->domain == SIM_DRIVER && call->cbid == CUPTI_DRIVER_TRACE_CBID_cuInit)
        initialized(call->result == 0);
    if (!(what & CALL_SEEN))
        return;
    struct thread *self = sim_self();
    unsigned depth = --self->depth;
    bool record = (what & CALL_RECORDED) && wanted(call);
    /* Recording stopped during the call. In the real CUPTI (13.0 Update 1) the thread never
     * leaves this call. */
    if ((what & CALL_RECORDED) && !record) {
        self->cut_off = true;
        self->cut_correlation = call->correlation;
    }
    if (record) {
        call->end = sim_now();
        sim_clock_keep_fresh();
    }
    /* Until 12.8, external ids were reported for calls that the filter excludes, too. */
    bool external = record || (sim_version() < 26 && (on(CUPTI_ACTIVITY_KIND_RUNTIME, 0) ||
                                                      on(CUPTI_ACTIVITY_KIND_DRIVER, 0)));
    if (external && !call->outer && on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0))
        put_external(self, call->correlation);
    if (record)
        put_call(self, call);
    if (what & CALL_CALLED)
        sim_callback_api(call, true, depth);
    if (!call->outer)
        self->symbol = NULL;
}

/* ---- overhead ---- */

void sim_overhead(CUpti_ActivityOverheadKind kind, uint64_t start, uint64_t end, void *data)
{
    CUpti_ActivityOverhead3 record = {
        .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
        .overheadKind = kind,
        .objectKind = CUPTI_ACTIVITY_OBJECT_THREAD,
        .start = start,
        .end = end,
        .overheadData = data,
    };
    struct thread *self = sim_self();
    record.objectId.pt.processId = (uint32_t)getpid();
    record.objectId.pt.threadId =
        atomic_load(&sim_settings.system_threads) ? self->system_id : self->pthread_id;
    sim_put(&record);
}

/* Loading at a kernel's first launch, and once a full command buffer, whose data the client
 * frees. */
static void kernel_overhead(bool first, uint64_t now)
{
    static _Atomic uint64_t launches;
    if (!on(CUPTI_ACTIVITY_KIND_OVERHEAD, 0))
        return;
    if (first)
        sim_overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, now, sim_now(), NULL);
    if (sim_version() < 22 || ++launches != 100)
        return;
    CUpti_ActivityOverheadCommandBufferFullData *data = calloc(1, sizeof *data);
    if (!data)
        return;
    data->channelID = 1;
    data->channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
    COUNT(overhead_data);
    sim_overhead(CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, now, sim_now(), data);
}

/* ---- objects that exist already ---- */

#define MANY 1024
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint32_t context, device;
} contexts[MANY];
static struct {
    uint32_t context, stream;
} streams[MANY];
static unsigned context_n, stream_n;
static uint64_t pools[MANY];
static unsigned pool_n;
/* Executable graphs made while GRAPH_TRACE was on. Their nodes have no records while it is on. */
#define TRACED 65536u
static _Atomic uint64_t traced[TRACED / 64];

bool sim_device_of_context(uint32_t context, uint32_t *device)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < context_n && !found; i++)
        if ((found = contexts[i].context == context))
            *device = contexts[i].device;
    pthread_mutex_unlock(&lock);
    return found;
}

bool sim_any_context(void)
{
    pthread_mutex_lock(&lock);
    bool any = context_n != 0;
    pthread_mutex_unlock(&lock);
    return any;
}

static void put_device(uint32_t id)
{
    const struct sim_device *d = sim_the_core->device((int)id);
    if (!d)
        return;
    CUpti_ActivityDevice5 record = {
        .kind = CUPTI_ACTIVITY_KIND_DEVICE,
        .globalMemoryBandwidth = 3350000000u,
        .globalMemorySize = d->memory_bytes,
        .constantMemorySize = 65536,
        .l2CacheSize = 52428800,
        .numThreadsPerWarp = (uint32_t)d->warp_size,
        .coreClockRate = (uint32_t)d->clock_khz,
        .numMemcpyEngines = 3,
        .numMultiprocessors = (uint32_t)d->sms,
        .maxIPC = 4,
        .maxWarpsPerMultiprocessor = (uint32_t)(d->threads_per_sm / d->warp_size),
        .maxBlocksPerMultiprocessor = (uint32_t)d->max_blocks_per_sm,
        .maxSharedMemoryPerMultiprocessor = (uint32_t)d->shared_per_sm,
        .maxRegistersPerMultiprocessor = (uint32_t)d->registers_per_sm,
        .maxRegistersPerBlock = (uint32_t)d->registers_per_block,
        .maxSharedMemoryPerBlock = (uint32_t)d->shared_per_block,
        .maxThreadsPerBlock = (uint32_t)d->threads_per_block,
        .maxBlockDimX = 1024,
        .maxBlockDimY = 1024,
        .maxBlockDimZ = 64,
        .maxGridDimX = 2147483647,
        .maxGridDimY = 65535,
        .maxGridDimZ = 65535,
        .computeCapabilityMajor = (uint32_t)d->major,
        .computeCapabilityMinor = (uint32_t)d->minor,
        .id = id,
        .name = d->name,
        .isCudaVisible = 1,
        .isMigEnabled = sim_fault_on("mig", false),
    };
    memcpy(record.uuid.bytes, "SI", 2); /* as nvml.c has it */
    record.uuid.bytes[15] = (char)id;
    sim_put(&record);
}

static void put_devices(void)
{
    for (int i = 0, n = sim_the_core->device_count(); i < n; i++)
        put_device((uint32_t)i);
}

static void put_context(uint32_t context, uint32_t device)
{
    CUpti_ActivityContext3 record = {
        .kind = CUPTI_ACTIVITY_KIND_CONTEXT,
        .contextId = context,
        .deviceId = device,
        .computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA,
        .nullStreamId = 7,
    };
    sim_put(&record);
}

static void put_stream(uint32_t context, uint32_t stream)
{
    CUpti_ActivityStream record = {
        .kind = CUPTI_ACTIVITY_KIND_STREAM,
        .contextId = context,
        .streamId = stream,
        .flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT,
    };
    sim_put(&record);
}

void sim_dump(uint32_t kind)
{
    if (!sim_the_core->initialized())
        return;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
        put_devices();
    for (unsigned i = 0; kind == CUPTI_ACTIVITY_KIND_CONTEXT && i < context_n; i++)
        put_context(contexts[i].context, contexts[i].device);
    for (unsigned i = 0; kind == CUPTI_ACTIVITY_KIND_STREAM && i < stream_n; i++)
        put_stream(streams[i].context, streams[i].stream);
}

static void know_context(uint32_t context, uint32_t device)
{
    uint32_t known;
    if (sim_device_of_context(context, &known))
        return;
    pthread_mutex_lock(&lock);
    if (context_n < MANY) {
        contexts[context_n].context = context;
        contexts[context_n++].device = device;
    }
    pthread_mutex_unlock(&lock);
}

static void know_stream(uint32_t context, uint32_t stream)
{
    pthread_mutex_lock(&lock);
    if (stream_n < MANY) {
        streams[stream_n].context = context;
        streams[stream_n++].stream = stream;
    }
    pthread_mutex_unlock(&lock);
}

static bool is_traced(uint32_t graph)
{
    return graph && on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0) &&
           (traced[graph % TRACED / 64] >> graph % 64 & 1);
}

/* "Disabling GRAPH_TRACE does not restore node level tracing" (cupti_activity.h of 13.5): once
 * GRAPH_TRACE was on, nodes have no records until CUPTI is finalized.
 *
 * CUPTI's usage guide (CUDA graph-level tracing) on graphs traced as a whole: "CUPTI will not
 * collect any kernel, memcpy or memset activities" of nodes. A graph instantiated before is not
 * traced either. */
static bool without_records(uint32_t graph)
{
    return graph && (sim_settings.graphs_whole || sim_fault_on("no_nodes", false));
}

static uint32_t callback_of(enum sim_resource resource)
{
    static const uint32_t cbids[] = {
        [SIM_CONTEXT_CREATED] = CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
        [SIM_STREAM_CREATED] = CUPTI_CBID_RESOURCE_STREAM_CREATED,
        [SIM_GRAPH_CREATED] = CUPTI_CBID_RESOURCE_GRAPH_CREATED,
        [SIM_GRAPH_NODE_CREATED] = CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
        [SIM_GRAPH_NODE_CLONED] = CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
        [SIM_GRAPH_EXEC_CREATED] = CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
        [SIM_MODULE_LOADED] = CUPTI_CBID_RESOURCE_MODULE_LOADED,
        [SIM_INIT_FINISHED] = CUPTI_CBID_RESOURCE_CU_INIT_FINISHED,
    };
    return cbids[resource];
}

/* Fault conditional=1. */
static CUgraphNodeType node_type(const struct sim_resource_info *info)
{
    if (info->node_type == CU_GRAPH_NODE_TYPE_MEMSET && sim_fault_on("conditional", false))
        return CU_GRAPH_NODE_TYPE_CONDITIONAL;
    return (CUgraphNodeType)info->node_type;
}

static void on_resource(enum sim_resource resource, const struct sim_resource_info *info)
{
    if (resource == SIM_CONTEXT_CREATED) {
        know_context(info->context, info->device);
        if (on(CUPTI_ACTIVITY_KIND_CONTEXT, 0))
            put_context(info->context, info->device);
    }
    if (resource == SIM_STREAM_CREATED) {
        know_stream(info->context, info->stream);
        if (on(CUPTI_ACTIVITY_KIND_STREAM, 0))
            put_stream(info->context, info->stream);
    }
    if (resource == SIM_GRAPH_EXEC_CREATED) {
        uint64_t bit = (uint64_t)1 << info->graph % 64;
        if (on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0))
            atomic_fetch_or(&traced[info->graph % TRACED / 64], bit);
        else
            atomic_fetch_and(&traced[info->graph % TRACED / 64], ~bit);
    }
    /* An executable graph is reported with the graph it was made from. */
    bool exec = resource == SIM_GRAPH_EXEC_CREATED;
    CUpti_GraphData graph = {
        .graph = exec ? info->from_graph_handle : info->graph_handle,
        .originalGraph = exec ? NULL : info->from_graph_handle,
        .node = info->node_handle,
        .originalNode = info->from_node_handle,
        .nodeType = node_type(info),
    };
    CUpti_ModuleResourceData module = {.moduleId = 1};
    CUpti_ResourceData data = {.resourceDescriptor = NULL};
    if (resource >= SIM_GRAPH_CREATED && resource <= SIM_GRAPH_EXEC_CREATED)
        data.resourceDescriptor = &graph;
    if (resource == SIM_MODULE_LOADED)
        data.resourceDescriptor = &module;
    sim_callback_resource(callback_of(resource), &data);
}

/* ---- work on devices ---- */

/* Fault unlinked=N. */
static uint32_t correlation_of(const struct sim_work *w)
{
    static _Atomic uint64_t n;
    long every = 0;
    if (sim_self()->cut_off)
        return sim_self()->cut_correlation;
    if (!sim_fault("unlinked", &every) || every <= 0 || ++n % (uint64_t)every)
        return w->correlation;
    return w->correlation + 1000000;
}

/* Fault bytes_off=N. */
static uint64_t bytes_of(const struct sim_work *w)
{
    long off = 0;
    return sim_fault("bytes_off", &off) ? w->bytes + (uint64_t)off : w->bytes;
}

static struct slot *queued_kernel(const struct sim_work *w)
{
    bool is_new = false;
    uint32_t kind = on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, w->context)
                        ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                        : CUPTI_ACTIVITY_KIND_KERNEL;
    if (!on(kind, w->context) || without_records(w->graph))
        return NULL;
    bool overhead = on(CUPTI_ACTIVITY_KIND_OVERHEAD, 0);
    bool latency = atomic_load_explicit(&sim_settings.latency, memory_order_relaxed);
    uint64_t now = overhead || latency ? sim_now() : 0;
    const char *name = sim_intern(w->name, &is_new);
    if (overhead)
        kernel_overhead(is_new, now);
    if (sim_drop_this())
        return NULL;
    CUpti_ActivityKernel10 record = {
        .kind = (CUpti_ActivityKind)kind,
        .registersPerThread = (uint16_t)w->registers,
        .completed = 0,
        .deviceId = w->device,
        .contextId = w->context,
        .streamId = w->stream,
        .gridX = w->grid[0],
        .gridY = w->grid[1],
        .gridZ = w->grid[2],
        .blockX = w->block[0],
        .blockY = w->block[1],
        .blockZ = w->block[2],
        .staticSharedMemory = (int32_t)w->static_shared,
        .dynamicSharedMemory = (int32_t)w->dynamic_shared,
        .correlationId = correlation_of(w),
        .gridId = w->correlation,
        .name = name,
        .queued = latency ? now : 0,
        .submitted = latency ? now + 100 : 0,
        .graphNodeId = w->node,
        .graphId = w->graph,
        .channelID = 1,
        .channelType = CUPTI_CHANNEL_TYPE_COMPUTE,
        .clusterX = (uint32_t)w->cluster[0],
        .clusterY = (uint32_t)w->cluster[1],
        .clusterZ = (uint32_t)w->cluster[2],
    };
    sim_self()->symbol = name;
    return sim_reserve(&record);
}

static struct slot *queued_copy(const struct sim_work *w)
{
    if (!on(CUPTI_ACTIVITY_KIND_MEMCPY, w->context) || without_records(w->graph) || sim_drop_this())
        return NULL;
    CUpti_ActivityMemcpy6 record = {
        .kind = CUPTI_ACTIVITY_KIND_MEMCPY,
        .copyKind = (uint8_t)w->copy_kind,
        .srcKind = (uint8_t)w->from_kind,
        .dstKind = (uint8_t)w->to_kind,
        .flags = w->async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0,
        .bytes = bytes_of(w),
        .deviceId = w->device,
        .contextId = w->context,
        .streamId = w->stream,
        .correlationId = w->correlation,
        .graphNodeId = w->node,
        .graphId = w->graph,
        .channelID = 2,
        .channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY,
        .copyCount = 1,
    };
    return sim_reserve(&record);
}

/* Either MEMCPY or MEMCPY2 enables records of peer copies: Kineto enables MEMCPY only and gets
 * them. */
static struct slot *queued_peer_copy(const struct sim_work *w)
{
    bool wanted_here =
        on(CUPTI_ACTIVITY_KIND_MEMCPY2, w->context) || on(CUPTI_ACTIVITY_KIND_MEMCPY, w->context);
    if (!wanted_here || without_records(w->graph) || sim_drop_this())
        return NULL;
    CUpti_ActivityMemcpyPtoP4 record = {
        .kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
        .copyKind = (uint8_t)w->copy_kind,
        .srcKind = (uint8_t)w->from_kind,
        .dstKind = (uint8_t)w->to_kind,
        .flags = w->async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0,
        .bytes = w->bytes,
        .deviceId = w->device,
        .contextId = w->context,
        .streamId = w->stream,
        .srcDeviceId = w->from_device,
        .srcContextId = w->from_context,
        .dstDeviceId = w->to_device,
        .dstContextId = w->to_context,
        .correlationId = w->correlation,
        .graphNodeId = w->node,
        .graphId = w->graph,
        .channelID = 2,
        .channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY,
    };
    return sim_reserve(&record);
}

static struct slot *queued_fill(const struct sim_work *w)
{
    if (!on(CUPTI_ACTIVITY_KIND_MEMSET, w->context) || without_records(w->graph) || sim_drop_this())
        return NULL;
    CUpti_ActivityMemset4 record = {
        .kind = CUPTI_ACTIVITY_KIND_MEMSET,
        .value = w->value,
        .bytes = w->bytes,
        .deviceId = w->device,
        .contextId = w->context,
        .streamId = w->stream,
        .correlationId = w->correlation,
        .flags = w->async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0,
        .memoryKind = (uint16_t)w->to_kind,
        .graphNodeId = w->node,
        .graphId = w->graph,
        .channelID = 1,
        .channelType = CUPTI_CHANNEL_TYPE_COMPUTE,
    };
    return sim_reserve(&record);
}

static struct slot *queued_graph(const struct sim_work *w)
{
    if (!is_traced(w->graph) || sim_drop_this())
        return NULL;
    CUpti_ActivityGraphTrace2 record = {
        .kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
        .correlationId = w->correlation,
        .deviceId = w->device,
        .graphId = w->graph,
        .contextId = w->context,
        .streamId = w->stream,
        .endDeviceId = w->device,
        .endContextId = w->context,
    };
    return sim_reserve(&record);
}

static void on_queued(struct sim_work *w)
{
    w->tap = NULL;
    if (!armed())
        return;
    struct thread *self = sim_self();
    if (self->context != w->context) {
        self->context = w->context;
        know_context(w->context, w->device); /* the context may be older than this library */
    }
    switch (w->kind) {
    case SIM_KERNEL:
        w->tap = queued_kernel(w);
        break;
    case SIM_COPY:
        w->tap = queued_copy(w);
        break;
    case SIM_COPY_PEER:
        w->tap = queued_peer_copy(w);
        break;
    case SIM_FILL:
        w->tap = queued_fill(w);
        break;
    case SIM_GRAPH_WHOLE:
        w->tap = queued_graph(w);
        break;
    }
}

static bool without_times(void)
{
    static _Atomic uint64_t kernels;
    long first = 0;
    if (sim_fault("zero_times", &first) && first > 0 && kernels++ < (uint64_t)first)
        return true;
    return sim_clock_is_clients() && sim_fault_on("zero_with_callback", false);
}

static bool on_default_clock(void)
{
    static _Atomic uint64_t kernels;
    long first = 0;
    return sim_clock_is_clients() && sim_fault("default_clock", &first) &&
           kernels++ < (uint64_t)first;
}

static void on_done(struct sim_work *w)
{
    if (!w->tap)
        return;
    w->start_tap = sim_on_clock(w->start_ns);
    w->end_tap = sim_on_clock(w->end_ns);
    if (w->kind == SIM_KERNEL && on_default_clock()) {
        w->start_tap = sim_on_system_clock(w->start_ns);
        w->end_tap = sim_on_system_clock(w->end_ns);
    }
    if (w->kind == SIM_KERNEL && without_times()) {
        w->start_tap = w->end_tap = 0;
        COUNT(zero_time);
    }
    sim_finish(w->tap, w->start_tap, w->end_tap);
    w->tap = NULL;
}

/* ---- waits, events, memory ---- */

static void on_waited(const struct sim_wait *w)
{
    /* A query of unfinished work is recorded only if the client wants all. The headers of 12.8
     * call this the default, those of 12.9 and newer the opposite. */
    if (w->query && w->result && !sim_settings.all_syncs)
        return;
    if (on(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, w->context)) {
        CUpti_ActivitySynchronization2 record = {
            .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
            .type = (CUpti_ActivitySynchronizationType)w->type,
            .start = sim_on_clock(w->start_ns),
            .end = sim_on_clock(w->end_ns),
            .correlationId = w->correlation,
            .contextId = w->context,
            .streamId = w->stream,
            .cudaEventId = w->event,
            .cudaEventSyncId = w->event_sync,
            .returnValue = (uint32_t)w->result,
        };
        sim_put(&record);
    }
    if (w->query)
        return;
    if (w->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE ||
        w->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE)
        sim_callback_sync(w->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
}

static void on_recorded(const struct sim_event_record *e)
{
    if (!on(CUPTI_ACTIVITY_KIND_CUDA_EVENT, e->context))
        return;
    CUpti_ActivityCudaEvent2 record = {
        .kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT,
        .correlationId = e->correlation,
        .contextId = e->context,
        .streamId = e->stream,
        .eventId = e->event,
        .deviceId = e->device,
        .deviceTimestamp = atomic_load(&sim_settings.event_times) ? sim_on_clock(e->time_ns) : 0,
        .cudaEventSyncId = e->event_sync,
    };
    sim_put(&record);
}

static bool is_new_pool(uint64_t pool)
{
    bool is_new = true;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < pool_n && is_new; i++)
        is_new = pools[i] != pool;
    if (is_new && pool_n < MANY)
        pools[pool_n++] = pool;
    pthread_mutex_unlock(&lock);
    return is_new;
}

static void put_pool(const struct sim_memory *m)
{
    CUpti_ActivityMemoryPool3 record = {
        .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
        .memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED,
        .memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL,
        .correlationId = m->correlation,
        .processId = (uint32_t)getpid(),
        .deviceId = m->device,
        .address = m->pool,
        .size = m->pool_size,
        .releaseThreshold = m->release_threshold,
        .timestamp = sim_on_clock(m->time_ns),
        .utilizedSize = m->pool_used,
    };
    sim_put(&record);
}

static void on_memory(const struct sim_memory *m)
{
    if (m->pool && on(CUPTI_ACTIVITY_KIND_MEMORY_POOL, m->context) && is_new_pool(m->pool))
        put_pool(m);
    if (!on(CUPTI_ACTIVITY_KIND_MEMORY2, m->context))
        return;
    CUpti_ActivityMemory4 record = {
        .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
        .memoryOperationType = m->release ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                                          : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
        .memoryKind = (CUpti_ActivityMemoryKind)m->kind,
        .correlationId = m->correlation,
        .address = m->address,
        .bytes = m->bytes,
        .timestamp = sim_on_clock(m->time_ns),
        .processId = (uint32_t)getpid(),
        .deviceId = m->device,
        .contextId = m->context,
        .streamId = m->async ? m->stream : CUPTI_SYNCHRONIZATION_INVALID_VALUE,
        .name = m->name,
        .isAsync = m->async,
    };
    if (m->pool) {
        record.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
        record.memoryPoolConfig.address = m->pool;
        record.memoryPoolConfig.releaseThreshold = m->release_threshold;
        record.memoryPoolConfig.pool.size = m->pool_size;
        record.memoryPoolConfig.utilizedSize = m->pool_used;
    }
    sim_put(&record);
}

const struct sim_tap sim_cupti_tap = {
    .enter = on_enter,
    .leave = on_leave,
    .queued = on_queued,
    .done = on_done,
    .waited = on_waited,
    .recorded = on_recorded,
    .memory = on_memory,
    .resource = on_resource,
};
