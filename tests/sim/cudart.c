/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated CUDA runtime: finding the driver, registered kernels, errors, devices. */
#include "tests/sim/cudart.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/image.h"

struct rt_driver drv;

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static __thread cudaError_t last_error;
static __thread int my_device;
static __thread bool twin_note;

void sim_note_twin(void)
{
    twin_note = true;
}

__attribute__((visibility("hidden"))) bool sim_take_twin(void)
{
    bool was = twin_note;
    twin_note = false;
    return was;
}

static void load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const struct sim_core *(*core)(void) = NULL;
    if (!library)
        return;
#define DRIVER(name)            *(void **)&drv.name = dlsym(library, #name);
#define DRIVER_LIKE(name, like) DRIVER(name)
#include "tests/sim/cudart_calls.def"
    *(void **)&core = dlsym(library, "sim_core");
    drv.core = core ? core() : NULL;
}

static cudaError_t start(void)
{
    if (!drv.core->initialized()) {
        CUresult result = drv.cuInit(0);
        if (result)
            return (cudaError_t)result;
    }
    if (drv.core->device_count() == 0)
        return cudaErrorNoDevice;
    return (cudaError_t)drv.core->use_device(my_device);
}

cudaError_t rt_begin(struct sim_call *call, uint32_t cbid, const char *name, bool context)
{
    pthread_once(&loaded, load_driver);
    if (!drv.core)
        return last_error = cudaErrorInsufficientDriver;
    if (drv.core->forked())
        return last_error = cudaErrorInitializationError;
    drv.core->call_enter(call, SIM_RUNTIME, cbid, name);
    cudaError_t result = context ? start() : cudaSuccess;
    if (result)
        rt_end(call, result);
    return result;
}

cudaError_t rt_end(struct sim_call *call, int result)
{
    if (result != cudaSuccess && result != cudaErrorNotReady)
        last_error = (cudaError_t)result;
    drv.core->call_leave(call, result);
    return (cudaError_t)result;
}

int rt_device(void)
{
    return my_device;
}

CUcontext rt_context_of(int device)
{
    CUcontext context = NULL;
    drv.cuDevicePrimaryCtxRetain(&context, device);
    return context;
}

/* ---- registered kernels ---- */

struct binary {
    const void *image;
    _Atomic(CUmodule) module;
};

struct kernel {
    const void *host;
    char *name;
    struct binary *binary;
    _Atomic(CUfunction) function;
};

enum { TABLE = 1 << 13 };
static struct kernel *_Atomic table[TABLE]; /* open addressing; entries are never removed */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t hash(const void *pointer)
{
    return (size_t)(((uintptr_t)pointer >> 4) * 0x9E3779B97F4A7C15u >> 40) % TABLE;
}

static struct kernel *find(const void *host)
{
    for (size_t i = hash(host), n = 0; n < TABLE; n++, i = (i + 1) % TABLE) {
        struct kernel *kernel = atomic_load_explicit(&table[i], memory_order_acquire);
        if (!kernel)
            return NULL;
        /* A cudaKernel_t points to the table's entry. */
        if (kernel->host == host)
            return kernel;
    }
    return NULL;
}

static void insert(struct kernel *kernel, const void *key)
{
    for (size_t i = hash(key), n = 0; n < TABLE; n++, i = (i + 1) % TABLE)
        if (!table[i]) {
            table[i] = kernel;
            return;
        }
}

void **__cudaRegisterFatBinary(void *fat);
void **__cudaRegisterFatBinary(void *fat)
{
    /* nvcc passes a wrapper around the image. */
    struct wrapper {
        int magic, version;
        const void *data;
    } wrapper;
    struct binary *binary = calloc(1, sizeof *binary);
    if (!binary)
        abort();
    memcpy(&wrapper, fat, sizeof wrapper);
    binary->image = wrapper.magic == 0x466243b1 ? wrapper.data : fat;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **binary);
void __cudaRegisterFatBinaryEnd(void **binary)
{
    (void)binary;
}

/* Kernels of an unloaded library stay in the table: nothing launches them. */
void __cudaUnregisterFatBinary(void **binary);
void __cudaUnregisterFatBinary(void **binary)
{
    (void)binary;
}

void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name,
                            int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *size);
void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name,
                            int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *size)
{
    (void)device;
    (void)limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)size;
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel || !(kernel->name = strdup(name)))
        abort();
    kernel->host = host;
    kernel->binary = (struct binary *)binary;
    pthread_mutex_lock(&table_lock);
    insert(kernel, host);
    pthread_mutex_unlock(&table_lock);
}

void __cudaRegisterVar(void **binary, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global);
void __cudaRegisterVar(void **binary, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global)
{
    (void)binary;
    (void)host;
    (void)device;
    (void)name;
    (void)external;
    (void)size;
    (void)constant;
    (void)global;
}

char __cudaInitModule(void **binary);
char __cudaInitModule(void **binary)
{
    (void)binary;
    return 1;
}

static CUfunction load(struct kernel *kernel)
{
    CUfunction function = kernel->function;
    CUmodule module = kernel->binary->module, none = NULL;
    if (function)
        return function;
    if (!module) {
        if (drv.cuModuleLoadData(&module, kernel->binary->image))
            return NULL;
        if (!atomic_compare_exchange_strong(&kernel->binary->module, &none, module)) {
            drv.cuModuleUnload(module);
            module = none;
        }
    }
    if (drv.cuModuleGetFunction(&function, module, kernel->name))
        return NULL;
    kernel->function = function;
    return function;
}

CUfunction rt_function(const void *host)
{
    struct kernel *kernel = find(host);
    return kernel ? load(kernel) : NULL;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    /* The host pointer serves as the handle. Only this runtime's table contains it. */
    *kernel = (cudaKernel_t)host;
    return find(host) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    RT(cudaGetFuncBySymbol, v11000);
    *function = rt_function(symbol);
    RT_END(*function ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

struct configuration {
    dim3 grid, block;
    size_t shared;
    void *stream;
};
static __thread struct configuration pushed[8];
static __thread int n_pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    if (n_pushed == 8)
        return 1;
    pushed[n_pushed++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (n_pushed == 0)
        return cudaErrorMissingConfiguration;
    const struct configuration *c = &pushed[--n_pushed];
    *grid = c->grid;
    *block = c->block;
    *shared = c->shared;
    *(void **)stream = c->stream;
    return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void)
{
    cudaError_t was = last_error;
    RT_EARLY(cudaGetLastError, v3020);
    last_error = cudaSuccess;
    drv.core->call_leave(&call_, was);
    return was;
}

cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t was = last_error;
    RT_EARLY(cudaPeekAtLastError, v3020);
    drv.core->call_leave(&call_, was);
    return was;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "cudaErrorOfTheSimulator";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "error of the simulated runtime";
}

/* ---- versions and devices ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    RT_EARLY(cudaDriverGetVersion, v3020);
    RT_END(drv.cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    RT_EARLY(cudaRuntimeGetVersion, v3020);
    *version = SIM_CUDART == 12 ? 12090 : 13000;
    RT_END(cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    RT_EARLY(cudaGetDeviceCount, v3020);
    *count = 0;
    CUresult result = drv.cuInit(0);
    if (!result)
        result = drv.cuDeviceGetCount(count);
    RT_END(result ? (int)result : *count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    RT_EARLY(cudaGetDevice, v3020);
    int current = drv.core->current_device();
    *device = current >= 0 ? current : my_device;
    RT_END(cudaSuccess);
}

cudaError_t cudaSetDevice(int device)
{
    RT_EARLY(cudaSetDevice, v3020);
    CUresult result = drv.cuInit(0);
    if (!result && (device < 0 || device >= drv.core->device_count()))
        result = drv.core->device_count() ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NO_DEVICE;
    if (!result) {
        my_device = device;
        result = (CUresult)drv.core->use_device(device);
    }
    RT_END(result);
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    RT(cudaInitDevice, v12000);
    RT_END(rt_context_of(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

static void describe(struct cudaDeviceProp *p, int ordinal)
{
    const struct sim_device *d = drv.core->device(ordinal);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", d->name);
    p->totalGlobalMem = d->memory_bytes;
    p->sharedMemPerBlock = (size_t)d->shared_per_block;
    p->regsPerBlock = d->registers_per_block;
    p->warpSize = d->warp_size;
    p->maxThreadsPerBlock = d->threads_per_block;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->major = d->major;
    p->minor = d->minor;
    p->multiProcessorCount = d->sms;
    p->maxThreadsPerMultiProcessor = d->threads_per_sm;
    p->sharedMemPerMultiprocessor = (size_t)d->shared_per_sm;
    p->regsPerMultiprocessor = d->registers_per_sm;
    p->sharedMemPerBlockOptin = (size_t)d->shared_per_block_optin;
    p->maxBlocksPerMultiProcessor = d->max_blocks_per_sm;
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 5120;
    p->asyncEngineCount = 3;
    p->unifiedAddressing = p->managedMemory = p->concurrentKernels = p->cooperativeLaunch = 1;
    p->pciBusID = 0x1b + ordinal;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    RT(cudaGetDeviceProperties, v12000);
    if (device < 0 || device >= drv.core->device_count())
        RT_END(cudaErrorInvalidDevice);
    describe(properties, device);
    RT_END(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr wanted, int device)
{
    RT(cudaDeviceGetAttribute, v5000);
    RT_END(drv.cuDeviceGetAttribute(value, (CUdevice_attribute)wanted, device));
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    RT(cudaDeviceGetPCIBusId, v4010);
    RT_END(drv.cuDeviceGetPCIBusId(text, length, device));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    RT(cudaDeviceGetStreamPriorityRange, v5050);
    RT_END(drv.cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    RT(cudaDeviceGetLimit, v3020);
    RT_END(drv.cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t cudaDeviceSynchronize(void)
{
    RT(cudaDeviceSynchronize, v3020);
    RT_END(drv.cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
    RT(cudaDeviceReset, v3020);
    RT_END(drv.cuDevicePrimaryCtxReset_v2(my_device));
}

#if SIM_CUDART == 12
cudaError_t cudaThreadSynchronize(void);
cudaError_t cudaThreadSynchronize(void)
{
    RT(cudaThreadSynchronize, v3020);
    RT_END(drv.cuCtxSynchronize());
}
#endif

/* ---- calls that do nothing but succeed ---- */

#define TAIL(name, version, parameters)                                                            \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        RT(name, version);                                                                         \
        RT_END(cudaSuccess);                                                                       \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
TAIL(cudaDeviceSetLimit, v3020, (enum cudaLimit limit, size_t value))
TAIL(cudaDeviceSetCacheConfig, v3020, (enum cudaFuncCache config))
TAIL(cudaSetDeviceFlags, v3020, (unsigned flags))
TAIL(cudaDeviceEnablePeerAccess, v4000, (int device, unsigned flags))
TAIL(cudaDeviceDisablePeerAccess, v4000, (int device))
TAIL(cudaFuncSetCacheConfig, v3020, (const void *function, enum cudaFuncCache config))
TAIL(cudaFuncSetAttribute, v9000, (const void *function, enum cudaFuncAttribute wanted, int value))
TAIL(cudaCtxResetPersistingL2Cache, v11000, (void))
TAIL(cudaStreamAttachMemAsync, v6000,
     (cudaStream_t stream, void *pointer, size_t size, unsigned flags))
TAIL(cudaProfilerStart, v4000, (void))
TAIL(cudaProfilerStop, v4000, (void))
#pragma GCC diagnostic pop

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    RT(cudaGetDeviceFlags, v7000);
    *flags = 0;
    RT_END(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    RT(cudaDeviceCanAccessPeer, v4000);
    *can = device != peer;
    RT_END(cudaSuccess);
}
