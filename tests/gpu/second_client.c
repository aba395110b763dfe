/* SPDX-License-Identifier: Apache-2.0 */
/* A second client of CUPTI. By default it behaves as Kineto: it subscribes once and ignores the
 * result. In each session it registers its buffer callbacks, enables kinds, disables them and
 * flushes all buffers.
 *
 *     --hidden 1      finds CUPTI's functions by dlsym, as JAX and Proton do
 *     --inside 1      uses CUPTI in libtorch_cpu.so, as PyTorch's wheels up to 1.13 do
 *     --leaves 1      each session subscribes (trying for --patience ms, default 5000) and
 *                     unsubscribes
 *     --finalizes 1   ends each session with cuptiFinalize
 *     --careful 1     ignores buffers of other clients, as Kineto does; otherwise frees them
 *     --early 1       subscribes before CUDA starts
 *     --clock 1       sets the processor's counter as CUPTI's clock, for the rest of the process
 *     --graph 1       the kernels of a step are the nodes of a graph
 *     --pause MS      begins each step with a pause
 *
 * --steps N of --launches kernels each; --sessions of --length steps begin at step --first and
 * every --period steps, each while a kernel of --busy ns runs. Prints `session NUMBER LAUNCHED
 * RECORDED` for each. Real build: link with -lcupti */
#include <dlfcn.h>
#include <time.h>

#include <cupti.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

#define BUFFER_BYTES (1u << 20)

static CUpti_SubscriberHandle subscriber;
static int gives_clock, is_careful, leaves, finalizes;
static long tries;
static uint8_t *_Atomic own_buffers[1024];

/* The functions of CUPTI that this program calls. */
static struct {
#define FUNCTIONS(X)                                                                               \
    X(cuptiSubscribe)                                                                              \
    X(cuptiUnsubscribe)                                                                            \
    X(cuptiFinalize)                                                                               \
    X(cuptiActivityRegisterTimestampCallback)                                                      \
    X(cuptiActivityRegisterCallbacks)                                                              \
    X(cuptiActivityEnable)                                                                         \
    X(cuptiActivityDisable)                                                                        \
    X(cuptiActivityFlushAll)                                                                       \
    X(cuptiActivityGetNextRecord)
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} c = {
#define X(name) .name = name,
    FUNCTIONS(X)
#undef X
};

static void find_in(const char *library)
{
    void *cupti = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    EXPECT(cupti);
#define X(name) *(void **)&c.name = dlsym(cupti, #name);
    FUNCTIONS(X)
#undef X
}
static _Atomic uint64_t recorded;

static void CUPTIAPI on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                             const void *data)
{
    (void)user, (void)domain, (void)id, (void)data;
}

static void CUPTIAPI give_buffer(uint8_t **data, size_t *size, size_t *most)
{
    *data = aligned_alloc(8, BUFFER_BYTES);
    for (unsigned i = 0; i < 1024; i++) {
        uint8_t *free_place = NULL;
        if (atomic_compare_exchange_strong(&own_buffers[i], &free_place, *data))
            break;
    }
    *size = BUFFER_BYTES;
    *most = 0;
}

static bool is_own(uint8_t *data)
{
    for (unsigned i = 0; i < 1024; i++) {
        uint8_t *own = data;
        if (atomic_compare_exchange_strong(&own_buffers[i], &own, NULL))
            return true;
    }
    return false;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *data, size_t size,
                                 size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    if (!is_own(data) && is_careful)
        return;
    while (c.cuptiActivityGetNextRecord(data, valid, &record) == CUPTI_SUCCESS)
        recorded += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    free(data);
}

static void subscribe(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    for (long i = 0; !subscriber && i < (leaves ? tries : 1); i++)
        if (c.cuptiSubscribe(&subscriber, on_call, NULL) != CUPTI_SUCCESS) {
            subscriber = NULL;
            nanosleep(&pause, NULL);
        }
}

static void leave(void)
{
    if (leaves && subscriber)
        c.cuptiUnsubscribe(subscriber);
    if (leaves)
        subscriber = NULL;
    if (finalizes)
        c.cuptiFinalize();
}

static uint64_t CUPTIAPI counter(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

static void begin(void)
{
    recorded = 0;
    subscribe();
    if (leaves && !subscriber)
        return;
    if (gives_clock)
        c.cuptiActivityRegisterTimestampCallback(counter);
    c.cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    c.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    c.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    c.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME);
}

static void stop(void)
{
    c.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    c.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY);
    c.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME);
    c.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    leave();
}

static void end(long number, uint64_t launched)
{
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    if (!leaves || subscriber) /* else CUPTI refused to subscribe */
        stop();
    printf("session %ld %llu %llu\n", number, (unsigned long long)launched,
           (unsigned long long)recorded);
}

static uint64_t launched(void)
{
    return tally.kernels + tally.graph_kernels;
}

static cudaGraphExec_t make_graph(cudaStream_t stream, long nodes)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (long k = 0; k < nodes; k++)
        CHECK(gpu_spin(stream, 20000));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

static void run_step(cudaStream_t stream, cudaGraphExec_t graph, long launches)
{
    for (long k = 0; !graph && k < launches; k++, tally.kernels++)
        CHECK(gpu_spin(stream, 20000));
    if (graph) {
        CHECK(cudaGraphLaunch(graph, stream));
        tally.graph_launches++;
        tally.graph_kernels += (uint64_t)launches;
    }
    CHECK(cudaStreamSynchronize(stream));
    tally.stream_syncs++;
}

int main(int argc, char **argv)
{
    long steps = number(argc, argv, "steps", 20), launches = number(argc, argv, "launches", 50);
    long first = number(argc, argv, "first", 6), length = number(argc, argv, "length", 2);
    long period = number(argc, argv, "period", 8), sessions = number(argc, argv, "sessions", 1);
    long busy_ns = number(argc, argv, "busy", 0);
    const struct timespec pause = {.tv_nsec = number(argc, argv, "pause", 0) * 1000000};
    cudaStream_t stream;
    gives_clock = number(argc, argv, "clock", 0) != 0;
    is_careful = number(argc, argv, "careful", 0) != 0;
    leaves = number(argc, argv, "leaves", 0) != 0;
    tries = number(argc, argv, "patience", 5000) / 5;
    finalizes = number(argc, argv, "finalizes", 0) != 0;
    if (number(argc, argv, "hidden", 0))
        find_in("libcupti.so.13");
    if (number(argc, argv, "inside", 0)) {
        find_in("libtorch_cpu.so");
        EXPECT(dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_LOCAL));
    }
    if (number(argc, argv, "early", 0))
        subscribe();
    if (first < 0)
        begin();
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraphExec_t graph = number(argc, argv, "graph", 0) ? make_graph(stream, launches) : NULL;
    uint64_t before = 0;
    for (long i = 0, session = 0; i < steps; i++) {
        bool begins = session < sessions && i == first + session * period;
        if (pause.tv_nsec)
            nanosleep(&pause, NULL);
        if (begins && busy_ns) {
            CHECK(gpu_spin(stream, (uint64_t)busy_ns));
            tally.kernels++;
        }
        if (begins)
            begin();
        if (begins)
            before = launched();
        run_step(stream, graph, launches);
        if (session < sessions && i == first + session * period + length - 1)
            end(session++, launched() - before);
        cprof_step();
        tally.steps++;
    }
    return report();
}
