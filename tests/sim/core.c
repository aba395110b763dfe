/* SPDX-License-Identifier: Apache-2.0 */
/* The middle of the simulated driver: API calls in progress, the tap, counters for tests,
 * faults, and cuInit() with the injection library.
 *
 * Not modelled, here and in the other files of the core:
 * - GPU code: a kernel runs a host function (image.h) or does nothing; no module globals,
 *   textures, symbols
 * - contention: streams never slow each other down, copies do not share the bus, kernels have no
 *   limit
 * - stream priorities; blocking of the host by pageable copies beyond their own time; sticky
 *   errors
 * - own streams for parallel branches of a graph: nodes overlap in time on the launch's stream
 * - conditional, child, event, memory and semaphore nodes; edges with data; graph upload;
 *   device-side launch
 * - green contexts, MPS, MIG, IPC, external memory, VMM beyond counting calls, mipmap levels,
 *   texture objects
 * - page faults: a device address is a host address, so a wrong pointer is not noticed
 * - launch attributes other than cluster dimension; programmatic launch except by the fault
 *   overlap=1
 * - implicit errors of a legacy-stream call while another stream captures
 * - old prototypes that share a name with a newer one: only those of the CUDA 13 headers and, in
 *   libcudart.so.12, what the tests call */
#include "tests/sim/core.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N_CBIDS = 1024, N_FAULTS = 64 };

/* ---- counters: each thread has its own block, so that threads share no cache line ---- */

struct counts {
    struct counts *next;
    _Atomic uint64_t figures[N_FIGURES];
    _Atomic uint64_t outer[2][N_CBIDS], nested[2][N_CBIDS];
};

static _Atomic(struct counts *) all_counts;
static __thread struct counts *my_counts;
static const char *_Atomic call_names[2][N_CBIDS];

static struct counts *counts(void)
{
    if (!my_counts) {
        struct counts *mine = calloc(1, sizeof *mine);
        if (!mine)
            abort();
        mine->next = all_counts;
        while (!atomic_compare_exchange_weak(&all_counts, &mine->next, mine))
            ;
        my_counts = mine;
    }
    return my_counts;
}

static void bump(_Atomic uint64_t *count, uint64_t n)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

void sim_add(enum sim_figure figure, uint64_t n)
{
    bump(&counts()->figures[figure], n);
}

static const char *const figure_names[N_FIGURES] = {
    [FIGURE_KERNELS] = "launched.kernels",
    [FIGURE_COPIES] = "launched.copies",
    [FIGURE_PEER_COPIES] = "launched.peer_copies",
    [FIGURE_FILLS] = "launched.fills",
    [FIGURE_HOSTFUNCS] = "launched.hostfuncs",
    [FIGURE_BYTES] = "launched.bytes",
    [FIGURE_GRAPHS] = "launched.graphs",
    [FIGURE_GRAPH_KERNELS] = "graph.kernels",
    [FIGURE_GRAPH_COPIES] = "graph.copies",
    [FIGURE_GRAPH_FILLS] = "graph.fills",
    [FIGURE_DONE_KERNELS] = "done.kernels",
    [FIGURE_DONE_COPIES] = "done.copies",
    [FIGURE_DONE_FILLS] = "done.fills",
    [FIGURE_DONE_GRAPHS] = "done.graphs",
    [FIGURE_RECORDS] = "event.records",
    [FIGURE_ALLOCS] = "memory.allocs",
    [FIGURE_FREES] = "memory.frees",
    [FIGURE_CONTEXTS] = "contexts",
    [FIGURE_STREAMS] = "streams",
    [FIGURE_SYNC + 1] = "sync.event",
    [FIGURE_SYNC + 2] = "sync.wait_event",
    [FIGURE_SYNC + 3] = "sync.stream",
    [FIGURE_SYNC + 4] = "device_syncs",
    [FIGURE_KIND + 1] = "launched.copies.htod",
    [FIGURE_KIND + 2] = "launched.copies.dtoh",
    [FIGURE_KIND + 3] = "launched.copies.htoa",
    [FIGURE_KIND + 4] = "launched.copies.atoh",
    [FIGURE_KIND + 5] = "launched.copies.atoa",
    [FIGURE_KIND + 6] = "launched.copies.atod",
    [FIGURE_KIND + 7] = "launched.copies.dtoa",
    [FIGURE_KIND + 8] = "launched.copies.dtod",
    [FIGURE_KIND + 9] = "launched.copies.htoh",
    [FIGURE_KIND + 10] = "launched.copies.ptop",
};

static uint64_t count_calls(const char *name, bool nested)
{
    uint64_t sum = 0;
    for (int domain = 0; domain < 2; domain++)
        for (int cbid = 0; cbid < N_CBIDS; cbid++) {
            const char *known = call_names[domain][cbid];
            if (!known || (name && strcmp(known, name) != 0))
                continue;
            for (struct counts *c = all_counts; c; c = c->next)
                sum += nested ? c->nested[domain][cbid] : c->outer[domain][cbid];
        }
    return sum;
}

static uint64_t core_count(const char *name)
{
    uint64_t sum = 0;
    if (!strcmp(name, "calls"))
        return count_calls(NULL, false);
    if (!strncmp(name, "calls.", 6))
        return count_calls(name + 6, false);
    if (!strncmp(name, "nested.", 7))
        return count_calls(name + 7, true);
    for (int i = 0; i < N_FIGURES; i++)
        if (figure_names[i] && !strcmp(figure_names[i], name))
            for (struct counts *c = all_counts; c; c = c->next)
                sum += c->figures[i];
    return sum;
}

/* SIM_REPORT=PATH: at its end, a process appends one line of JSON for each counter and each API
 * call by name. Appending keeps the lines of parent and children. libcupti adds its own. */
__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SIM_REPORT");
    FILE *f = path && *path ? fopen(path, "ae") : NULL;
    if (!f)
        return;
    const char *line = "{\"pid\":%d,\"of\":\"core\",\"name\":\"%s%s\",\"value\":%llu}\n";
    int pid = (int)getpid();
    fprintf(f, line, pid, "calls", "", (unsigned long long)core_count("calls"));
    for (int i = 0; i < N_FIGURES; i++)
        if (figure_names[i])
            fprintf(f, line, pid, figure_names[i], "",
                    (unsigned long long)core_count(figure_names[i]));
    for (int domain = 0; domain < 2; domain++)
        for (int cbid = 0; cbid < N_CBIDS; cbid++) {
            uint64_t n = 0;
            for (struct counts *c = all_counts; c; c = c->next)
                n += c->outer[domain][cbid];
            if (n)
                fprintf(f, line, pid, "calls.", call_names[domain][cbid], (unsigned long long)n);
        }
    fclose(f);
}

/* ---- faults ---- */

struct fault {
    char name[80];
    bool on;
    long value;
};

static struct fault faults[N_FAULTS];
static int n_faults;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t faults_read = PTHREAD_ONCE_INIT;
_Atomic long sim_skew_ns, sim_hold_launch_ms;
_Atomic bool sim_overlap;
static atomic_uint last_correlation;

/* The fault "cupti_error=NAME:N" is stored under the name "cupti_error:NAME" with the value N. */
static void set_fault(const char *name, const char *value)
{
    char full[80];
    const char *colon = value ? strchr(value, ':') : NULL;
    int n = snprintf(full, sizeof full, "%s", name);
    if (colon && n >= 0 && n < (int)sizeof full) {
        snprintf(full + n, sizeof full - (size_t)n, ":%.*s", (int)(colon - value), value);
        value = colon + 1;
    }
    pthread_mutex_lock(&fault_lock);
    struct fault *fault = NULL;
    for (int i = 0; i < n_faults && !fault; i++)
        if (!strcmp(faults[i].name, full))
            fault = &faults[i];
    if (!fault && n_faults < N_FAULTS) {
        fault = &faults[n_faults++];
        memcpy(fault->name, full, sizeof full);
    }
    long number = value ? (*value ? strtol(value, NULL, 0) : 1) : 0;
    if (fault) {
        fault->on = value != NULL;
        fault->value = number;
    }
    pthread_mutex_unlock(&fault_lock);
    if (!strcmp(full, "skew_ns"))
        sim_skew_ns = number;
    if (!strcmp(full, "hold_launch_ms"))
        sim_hold_launch_ms = number;
    if (!strcmp(full, "overlap"))
        sim_overlap = number != 0;
    if (!strcmp(full, "wrap") && number)
        last_correlation = UINT32_MAX - 999;
}

static void read_faults(void)
{
    const char *text = getenv("SIM_FAULTS");
    char *copy = text ? strdup(text) : NULL, *rest = NULL;
    for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one;
         one = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(one, '=');
        if (value)
            *value++ = '\0';
        set_fault(one, value ? value : "");
    }
    free(copy);
}

__attribute__((visibility("default"))) void sim_fault_set(const char *name, const char *value)
{
    pthread_once(&faults_read, read_faults);
    set_fault(name, value);
}

bool sim_fault(const char *name, long *value)
{
    pthread_once(&faults_read, read_faults);
    bool on = false;
    pthread_mutex_lock(&fault_lock);
    for (int i = 0; i < n_faults; i++)
        if (faults[i].on && !strcmp(faults[i].name, name)) {
            on = true;
            if (value)
                *value = faults[i].value;
        }
    pthread_mutex_unlock(&fault_lock);
    return on;
}

/* ---- the tap and calls ---- */

static void no_call(struct sim_call *call)
{
    (void)call;
}

static void no_work(struct sim_work *work)
{
    (void)work;
}

static void no_wait(const struct sim_wait *wait)
{
    (void)wait;
}

static void no_record(const struct sim_event_record *record)
{
    (void)record;
}

static void no_memory(const struct sim_memory *memory)
{
    (void)memory;
}

static void no_resource(enum sim_resource resource, const struct sim_resource_info *info)
{
    (void)resource;
    (void)info;
}

static const struct sim_tap no_tap = {no_call, no_call,   no_work,   no_work,
                                      no_wait, no_record, no_memory, no_resource};
static const struct sim_tap *_Atomic tap = &no_tap;

/* A replaced tap stays valid, because a thread may be inside it. */
static void replace_tap(const struct sim_tap *given)
{
    static struct sim_tap kept[16];
    static atomic_int n_kept;
    struct sim_tap *mine = &kept[n_kept++ % 16];
    mine->enter = given->enter ? given->enter : no_call;
    mine->leave = given->leave ? given->leave : no_call;
    mine->queued = given->queued ? given->queued : no_work;
    mine->done = given->done ? given->done : no_work;
    mine->waited = given->waited ? given->waited : no_wait;
    mine->recorded = given->recorded ? given->recorded : no_record;
    mine->memory = given->memory ? given->memory : no_memory;
    mine->resource = given->resource ? given->resource : no_resource;
    tap = mine;
}

const struct sim_tap *sim_tap(void)
{
    return tap;
}

static const struct sim_tap *_Atomic events_to; /* gets all events */
/* holds the driver's one subscription; NULL: nobody */
static const struct sim_tap *_Atomic subscribed;

static void set_tap(const struct sim_tap *given)
{
    const struct sim_tap *none = NULL;
    if (atomic_compare_exchange_strong(&events_to, &none, given))
        replace_tap(given);
}

static bool subscribe(const struct sim_tap *given)
{
    const struct sim_tap *none = NULL;
    if (!atomic_compare_exchange_strong(&subscribed, &none, given))
        return false;
    if (atomic_exchange(&events_to, given) != given)
        replace_tap(given);
    return true;
}

static void unsubscribe(const struct sim_tap *given)
{
    atomic_compare_exchange_strong(&subscribed, &given, NULL);
}

static __thread struct sim_call *current_call;
static __thread bool twin_note;
_Atomic bool sim_forked;

void sim_note_twin(void)
{
    twin_note = true;
}

bool sim_take_twin(void)
{
    bool was = twin_note;
    twin_note = false;
    return was;
}

uint64_t sim_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Correlation 0 means "none": the counter skips it when it wraps. */
static uint32_t next_correlation(void)
{
    uint32_t id;
    do
        id = atomic_fetch_add_explicit(&last_correlation, 1, memory_order_relaxed) + 1;
    while (!id);
    return id;
}

static void call_enter(struct sim_call *call, enum sim_domain domain, uint32_t cbid,
                       const char *name)
{
    memset(call, 0, sizeof *call);
    call->domain = domain;
    call->cbid = cbid;
    call->name = name;
    call->outer = current_call;
    pthread_once(&faults_read, read_faults);
    call->correlation = call->outer ? call->outer->correlation : next_correlation();
    current_call = call;
    if (cbid < N_CBIDS) {
        if (!atomic_load_explicit(&call_names[domain][cbid], memory_order_relaxed))
            call_names[domain][cbid] = name;
        struct counts *mine = counts();
        bump(call->outer ? &mine->nested[domain][cbid] : &mine->outer[domain][cbid], 1);
    }
    sim_tap()->enter(call);
}

static void call_leave(struct sim_call *call, int result)
{
    call->result = result;
    sim_tap()->leave(call);
    current_call = call->outer;
}

uint32_t sim_correlation(void)
{
    return current_call ? current_call->correlation : 0;
}

/* ---- cuInit ---- */

static atomic_int init_state; /* 0: not begun, 1: in progress on a thread, 2: done */
static _Atomic CUresult init_result = CUDA_ERROR_NOT_INITIALIZED;
static __thread bool in_init;

static void after_fork(void)
{
    if (init_state)
        sim_forked = true;
}

/* The first cuInit() loads the injection library that the variable names and calls it, as the
 * real driver does. */
static void call_injection(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialize)(void) = NULL;
    if (library)
        *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize)
        initialize();
}

/* The real driver shuts down in an exit handler: later calls return CUDA_ERROR_DEINITIALIZED,
 * and handlers registered before cuInit() run too late (openucx/ucx#11275,
 * argonne-lcf/THAPI#276). Where in cuInit() it registers the handler is not documented. Here it
 * registers it last, later than any handler of an injection library. */
static _Atomic bool down;

static void go_down(void)
{
    down = true;
}

CUresult sim_init(void)
{
    int expected = 0;
    if (init_state == 2 || in_init)
        return init_result;
    if (atomic_compare_exchange_strong(&init_state, &expected, 1)) {
        pthread_atfork(NULL, NULL, after_fork);
        in_init = true;
        init_result = sim_fault("no_driver", NULL) ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
        if (init_result == CUDA_SUCCESS)
            call_injection();
        if (init_result == CUDA_SUCCESS) {
            const struct sim_resource_info nothing = {0};
            atexit(go_down);
            sim_tap()->resource(SIM_INIT_FINISHED, &nothing);
        }
        in_init = false;
        init_state = 2;
    }
    while (init_state != 2)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    return init_result;
}

static bool initialized(void)
{
    return init_result == CUDA_SUCCESS && !sim_forked;
}

CUresult sim_begin(struct sim_call *call, uint32_t cbid, const char *name, bool needs_init)
{
    if (sim_forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs_init && init_result != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    call_enter(call, SIM_DRIVER, cbid, name);
    return CUDA_SUCCESS;
}

CUresult sim_end(struct sim_call *call, CUresult result)
{
    call_leave(call, (int)result);
    return result;
}

/* ---- the functions that sim_core() offers ---- */

static uint64_t id_of_stream(void *handle)
{
    CUstream stream = sim_stream(handle, false);
    return stream ? stream->id : 0;
}

static uint64_t id_of_context(void *context)
{
    return context ? ((CUcontext)context)->id : 0;
}

static uint64_t id_of_node(void *node)
{
    return node ? ((CUgraphNode)node)->id : 0;
}

static uint32_t id_of_graph(void *graph)
{
    return graph ? ((CUgraph)graph)->id : 0;
}

static bool core_forked(void)
{
    return sim_forked;
}

static bool core_down(void)
{
    return down;
}

static int core_use_device(int device)
{
    return (int)sim_use_device(device);
}

__attribute__((visibility("default"))) const struct sim_core *sim_core(void)
{
    static const struct sim_core core = {
        .set_tap = set_tap,
        .subscribe = subscribe,
        .unsubscribe = unsubscribe,
        .next_correlation = next_correlation,
        .call_enter = call_enter,
        .call_leave = call_leave,
        .device_count = sim_device_count,
        .device = sim_device,
        .id_of_stream = id_of_stream,
        .id_of_context = id_of_context,
        .id_of_node = id_of_node,
        .id_of_graph = id_of_graph,
        .initialized = initialized,
        .fault = sim_fault,
        .count = core_count,
        .forked = core_forked,
        .down = core_down,
        .use_device = core_use_device,
        .current_device = sim_current_device,
    };
    return &core;
}
