/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated CUPTI: loading, versions, errors, counters, queries of ids.
 *
 * One source makes three libraries: libcupti.so.13, .12 and .11.8, with the version nodes and
 * exports of the real ones (cupti_13.map …). Its behaviour follows the headers and what was
 * observed of the real library. The fault version=N selects a version and its record layouts.
 *
 * Not modelled:
 * - several subscribers; all functions that end in _v2 but cuptiSubscribe_v2; user-defined
 *   records (13.2)
 * - records of 13.1 and newer: a version above 13.0U1 has the structs of 13.0U1 and 32 more
 *   bytes
 * - kinds NAME, MARKER, MARKER_DATA, MODULE, FUNCTION, ENVIRONMENT, UNIFIED_MEMORY_COUNTER,
 *   NVLINK, PCIE, OPENACC, OPENMP, JIT, INTERNAL_LAUNCH_API, PC sampling and source level kinds,
 *   MEM_DECOMPRESS: enabling succeeds, records never come
 * - NVTX callbacks, hardware trace (HES), device graphs, launch attributes, confidential
 *   computing, MPS, MIG, green contexts
 * - event, metric, profiler, range profiler, PM sampling, checkpoint APIs: not exported
 * - cost of CONCURRENT_KERNEL and KERNEL: KERNEL does not serialise (the counter kind_kernel
 *   tells that it was on)
 * - device buffers: attributes can be set and read, the buffers never run full
 * - CUpti_CallbackData: functionParams is mostly NULL; context is NULL; symbolName is set at the
 *   exit only
 * - CUpti_ResourceData: context and stream handles are NULL; CUpti_GraphData: graphExec is NULL
 * - EnableAndDump of CONTEXT and STREAM: only objects made since this library found the driver
 * - priority and flags of STREAM records
 * - MEMORY_POOL: one CREATED record at the first use of a pool, none at its end
 *
 * Different from the real CUPTI:
 * - the stream's thread makes CUDA_EVENT records and may ask for a buffer
 * - driver calls inside a runtime call have records with its correlation; CUPTI 13.0 on an H200
 *   reported none
 * - the real one had a SYNCHRONIZATION record for each cudaStreamWaitEvent() during a capture,
 *   too, and more MEMORY_POOL records; kinds and numbers of other records were the same in the
 *   six programs of tests/fixtures/…-cupti-130001-…
 * - an unfinished API call does not hold back a buffer: its record is made at the exit
 * - with several copies of CUPTI, the last subscriber gets all events and knows only contexts
 *   made since */
#include "tests/sim/cupti_sim.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SIM_CUPTI_SONAME
#define SIM_CUPTI_SONAME "libcupti.so.13"
#endif

#define NEVER (-1) /* the error number of a call that never returns */

struct counters sim_counters;
const struct sim_core *_Atomic sim_the_core;

static __thread struct thread *this_thread;
static __thread CUptiResult last_result;
static pthread_key_t thread_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void end_thread(void *thread)
{
    sim_leave_thread(thread);
    this_thread = NULL;
    free(thread);
}

static void make_key(void)
{
    pthread_key_create(&thread_key, end_thread);
}

struct thread *sim_self(void)
{
    if (__builtin_expect(this_thread != NULL, 1))
        return this_thread;
    pthread_once(&key_once, make_key);
    struct thread *self = calloc(1, sizeof *self);
    if (!self)
        sim_die("no memory");
    self->pthread_id = (uint32_t)(uintptr_t)pthread_self();
    self->system_id = (uint32_t)syscall(SYS_gettid);
    this_thread = self;
    pthread_setspecific(thread_key, self);
    return self;
}

/* ---- the core ---- */

const struct sim_core *sim_driver(void)
{
    const struct sim_core *core = atomic_load_explicit(&sim_the_core, memory_order_acquire);
    if (core)
        return core;
    /* Without libcuda.so.1 there is no driver, as in the real library. Never closed. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct sim_core *(*get)(void) = NULL;
    if (library)
        *(void **)&get = dlsym(library, "sim_core");
    core = get ? get() : NULL;
    const struct sim_core *none = NULL;
    if (core && atomic_compare_exchange_strong(&sim_the_core, &none, core))
        core->set_tap(&sim_cupti_tap);
    return core;
}

bool sim_fault(const char *name, long *value)
{
    const struct sim_core *core = atomic_load_explicit(&sim_the_core, memory_order_acquire);
    return core && core->fault(name, value);
}

bool sim_fault_on(const char *name, bool otherwise)
{
    long value = 1;
    return sim_fault(name, &value) ? value != 0 : otherwise;
}

static uint32_t version;
static pthread_once_t version_once = PTHREAD_ONCE_INIT;

static void find_version(void)
{
    long asked = 0;
    sim_driver();
    if (sim_fault("version", &asked) && asked > 0)
        version = (uint32_t)asked;
    else if (strstr(SIM_CUPTI_SONAME, ".so.11"))
        version = 18;
    else
        version = strstr(SIM_CUPTI_SONAME, ".so.12") ? 26 : 130001;
    if (version >= 130000)
        atomic_store(&sim_settings.per_thread, true);
    atomic_store(&sim_settings.all_syncs, true);
}

/* Fixed at the first query: a library does not change its version. */
uint32_t sim_version(void)
{
    pthread_once(&version_once, find_version);
    return version;
}

/* ---- errors ---- */

CUptiResult sim_result(CUptiResult result)
{
    if (result != CUPTI_SUCCESS)
        last_result = result;
    return result;
}

/* When the loader opens the real library, its C++ code registers some 120 destructors with
 * __cxa_atexit(). All versions from 11.8.87 to 13.5.25 do (seen by interposing that function).
 * They run before atexit() handlers that are older than the library. */
static _Atomic bool torn_down;

static void tear_down(void)
{
    atomic_store(&torn_down, true);
}

__attribute__((constructor)) static void loaded(void)
{
    atexit(tear_down);
}

CUptiResult sim_refusal(const char *fault, bool without_driver)
{
    const struct sim_core *core = sim_driver();
    long error = 0;
    bool late = core && core->down && core->down() && !without_driver;
    if (late || atomic_load(&torn_down)) {
        sim_misuse("%s after the %s", strchr(fault, ':') + 1,
                   late ? "driver went down" : "library's own destructors ran");
        return CUPTI_ERROR_UNKNOWN;
    }
    if (!core)
        return without_driver ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
    while (core->fault(fault, &error) && error == NEVER)
        sim_sleep_ms(50);
    if (core->fault(fault, &error) && error)
        return (CUptiResult)error;
    if (!without_driver && core->fault("no_driver", NULL))
        return CUPTI_ERROR_UNKNOWN;
    return CUPTI_SUCCESS;
}

void sim_misuse(const char *format, ...)
{
    if (COUNT(misuse) >= 10) /* ten messages are enough */
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("simulated CUPTI: misuse: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* Ends the process where the real CUPTI hangs, deadlocks or corrupts memory. */
_Noreturn void sim_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("simulated CUPTI: fatal: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void sim_sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&t, &t) != 0)
        ;
}

#define RESULTS(X)                                                                                 \
    X(SUCCESS)                                                                                     \
    X(ERROR_INVALID_PARAMETER)                                                                     \
    X(ERROR_INVALID_DEVICE)                                                                        \
    X(ERROR_INVALID_CONTEXT)                                                                       \
    X(ERROR_INVALID_OPERATION)                                                                     \
    X(ERROR_OUT_OF_MEMORY)                                                                         \
    X(ERROR_HARDWARE)                                                                              \
    X(ERROR_PARAMETER_SIZE_NOT_SUFFICIENT)                                                         \
    X(ERROR_API_NOT_IMPLEMENTED)                                                                   \
    X(ERROR_MAX_LIMIT_REACHED)                                                                     \
    X(ERROR_NOT_READY)                                                                             \
    X(ERROR_NOT_COMPATIBLE)                                                                        \
    X(ERROR_NOT_INITIALIZED)                                                                       \
    X(ERROR_QUEUE_EMPTY)                                                                           \
    X(ERROR_INVALID_HANDLE)                                                                        \
    X(ERROR_INVALID_STREAM)                                                                        \
    X(ERROR_INVALID_KIND)                                                                          \
    X(ERROR_DISABLED)                                                                              \
    X(ERROR_INVALID_MODULE)                                                                        \
    X(ERROR_HARDWARE_BUSY)                                                                         \
    X(ERROR_NOT_SUPPORTED)                                                                         \
    X(ERROR_INSUFFICIENT_PRIVILEGES)                                                               \
    X(ERROR_LEGACY_PROFILER_NOT_SUPPORTED)                                                         \
    X(ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)                                                    \
    X(ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED)                                                      \
    X(ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)                                            \
    X(ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED)                                                  \
    X(ERROR_CMP_DEVICE_NOT_SUPPORTED)                                                              \
    X(ERROR_MIG_DEVICE_NOT_SUPPORTED)                                                              \
    X(ERROR_SLI_DEVICE_NOT_SUPPORTED)                                                              \
    X(ERROR_WSL_DEVICE_NOT_SUPPORTED)                                                              \
    X(ERROR_UNKNOWN)

static CUptiResult name_of(CUptiResult result, const char **text)
{
    if (!text)
        return INVALID;
    switch (result) {
#define X(name)                                                                                    \
    case CUPTI_##name:                                                                             \
        *text = "CUPTI_" #name;                                                                    \
        return CUPTI_SUCCESS;
        RESULTS(X)
#undef X
    default:
        *text = "<unknown>"; /* with an error, as 11.8 and 12.4 do */
        return INVALID;
    }
}

EXPORTED CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text)
{
    CALL_WITHOUT_DRIVER(cuptiGetResultString);
    return sim_result(name_of(result, text));
}

EXPORTED CUptiResult CUPTIAPI cuptiGetErrorMessage(CUptiResult result, const char **text)
{
    CALL_WITHOUT_DRIVER(cuptiGetErrorMessage);
    return sim_result(name_of(result, text));
}

EXPORTED CUptiResult CUPTIAPI cuptiGetLastError(void)
{
    CUptiResult last = last_result;
    last_result = CUPTI_SUCCESS;
    return last;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *answer)
{
    CALL_WITHOUT_DRIVER(cuptiGetVersion);
    if (!answer)
        return sim_result(INVALID);
    *answer = sim_version();
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *timestamp)
{
    CALL_WITHOUT_DRIVER(cuptiGetTimestamp);
    if (!timestamp)
        return sim_result(INVALID);
    *timestamp = sim_now();
    return CUPTI_SUCCESS;
}

/* ---- ids ---- */

EXPORTED CUptiResult CUPTIAPI cuptiGetContextId(CUcontext context, uint32_t *id)
{
    CALL(cuptiGetContextId);
    if (!id)
        return sim_result(INVALID);
    if (!context)
        return sim_result(CUPTI_ERROR_INVALID_CONTEXT);
    *id = (uint32_t)sim_the_core->id_of_context(context);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext context, uint32_t *device)
{
    CALL(cuptiGetDeviceId);
    if (!device)
        return sim_result(INVALID);
    if (!context || !sim_device_of_context((uint32_t)sim_the_core->id_of_context(context), device))
        return sim_result(CUPTI_ERROR_INVALID_CONTEXT);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext context, CUstream stream,
                                                 uint8_t per_thread, uint32_t *id)
{
    CALL(cuptiGetStreamIdEx);
    (void)context;
    if (!id)
        return sim_result(INVALID);
    if (!stream && per_thread)
        stream = CU_STREAM_PER_THREAD;
    *id = (uint32_t)sim_the_core->id_of_stream(stream);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id)
{
    return cuptiGetStreamIdEx(context, stream, 0, id);
}

EXPORTED CUptiResult CUPTIAPI cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
    CALL(cuptiGetGraphNodeId);
    if (!node || !id)
        return sim_result(INVALID);
    *id = sim_the_core->id_of_node(node);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetGraphId(CUgraph graph, uint32_t *id)
{
    CALL(cuptiGetGraphId);
    if (!graph || !id)
        return sim_result(INVALID);
    *id = sim_the_core->id_of_graph(graph);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetGraphExecId(CUgraphExec graph, uint32_t *id)
{
    CALL(cuptiGetGraphExecId);
    if (!graph || !id)
        return sim_result(INVALID);
    /* The core's executable graph begins with a pointer to its copy of the graph. Both have the
     * same id. */
    *id = sim_the_core->id_of_graph(*(void **)graph);
    return CUPTI_SUCCESS;
}

/* ---- counters for tests ---- */

static const struct {
    uint32_t kind;
    const char *name;
} kind_names[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, "memcpy"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memset"},
    {CUPTI_ACTIVITY_KIND_KERNEL, "kernel"},
    {CUPTI_ACTIVITY_KIND_DRIVER, "driver"},
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime"},
    {CUPTI_ACTIVITY_KIND_DEVICE, "device"},
    {CUPTI_ACTIVITY_KIND_CONTEXT, "context"},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "concurrent_kernel"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "memcpy2"},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, "cuda_event"},
    {CUPTI_ACTIVITY_KIND_STREAM, "stream"},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronization"},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "external_correlation"},
    {CUPTI_ACTIVITY_KIND_MEMORY2, "memory2"},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, "memory_pool"},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graph_trace"},
};

static const struct {
    const char *name;
    _Atomic uint64_t *value;
} figures[] = {
#define X(field, name) {name, &sim_counters.field},
    SIM_COUNTERS(X)
#undef X
};

EXPORTED uint64_t sim_cupti_count(const char *name)
{
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        if (strcmp(name, figures[i].name) == 0)
            return atomic_load(figures[i].value);
    if (strncmp(name, "records.", 8) != 0)
        return 0;
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++)
        if (strcmp(name + 8, kind_names[i].name) == 0)
            return atomic_load(&sim_counters.kind[kind_names[i].kind]);
    return 0;
}

/* Writes the counters to the file that SIM_REPORT names, as core.c does. */
__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SIM_REPORT");
    sim_end();
    FILE *f = path && *path ? fopen(path, "ae") : NULL;
    if (!f)
        return;
    const char *line = "{\"pid\":%d,\"of\":\"%s\",\"name\":\"%s\",\"value\":%llu}\n";
    int pid = (int)getpid();
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        fprintf(f, line, pid, "cupti", figures[i].name,
                (unsigned long long)atomic_load(figures[i].value));
    /* the setting at the end, 1 by default */
    fprintf(f, line, pid, "cupti", "all_syncs", (unsigned long long)sim_settings.all_syncs);
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "records.%s", kind_names[i].name);
        fprintf(f, line, pid, "cupti", name, (unsigned long long)sim_cupti_count(name));
    }
    fclose(f);
}
