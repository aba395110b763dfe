/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API: initialisation, devices, contexts, errors, entry points. */
#include "tests/sim/core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuInit(unsigned flags)
{
    (void)flags;
    if (sim_forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = sim_init();
    ENTER_EARLY(cuInit);
    LEAVE(result);
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER_EARLY(cuDriverGetVersion);
    *version = CUDA_VERSION;
    LEAVE(CUDA_SUCCESS);
}

/* ---- devices ---- */

CUresult cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount);
    *count = sim_device_count();
    LEAVE(CUDA_SUCCESS);
}

static CUresult known(int device)
{
    return device >= 0 && device < sim_device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(cuDeviceGet);
    *device = ordinal;
    LEAVE(known(ordinal));
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER(cuDeviceGetName);
    CUresult result = known(device);
    if (!result)
        snprintf(name, (size_t)length, "%s", sim_device(device)->name);
    LEAVE(result);
}

static void fill_uuid(CUuuid *uuid, int device)
{
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "simulated gpu ", 14);
    uuid->bytes[15] = (char)device;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER(cuDeviceGetUuid_v2);
    fill_uuid(uuid, device);
    LEAVE(known(device));
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(cuDeviceTotalMem_v2);
    CUresult result = known(device);
    if (!result)
        *bytes = sim_device(device)->memory_bytes;
    LEAVE(result);
}

static int attribute(CUdevice_attribute wanted, int ordinal)
{
    const struct sim_device *d = sim_device(ordinal);
    switch (wanted) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return d->major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return d->minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return d->sms;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return d->threads_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return d->threads_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return d->warp_size;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        return d->registers_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return d->registers_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return d->shared_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return d->shared_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return d->shared_per_block_optin;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return d->max_blocks_per_sm;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return d->clock_khz;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return 0x1b + ordinal;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute wanted, CUdevice device)
{
    ENTER(cuDeviceGetAttribute);
    CUresult result = known(device);
    if (!result)
        *value = attribute(wanted, device);
    LEAVE(result);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(cuDeviceCanAccessPeer);
    *can = device != peer;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    ENTER(cuDeviceGetPCIBusId);
    snprintf(text, (size_t)length, "0000:%02X:00.0", 0x1b + device);
    LEAVE(known(device));
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(cuDevicePrimaryCtxRetain);
    CUresult result = known(device);
    if (!result)
        *context = sim_primary(device);
    LEAVE(result);
}

/* The real driver destroys the context at the last release. Here it lives until a reset, because
 * libraries of the process share it. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(cuDevicePrimaryCtxRelease_v2);
    LEAVE(known(device));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    ENTER(cuDevicePrimaryCtxReset_v2);
    CUresult result = known(device);
    if (!result)
        sim_end_context(sim_primary(device));
    LEAVE(result);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    ENTER(cuDevicePrimaryCtxSetFlags_v2);
    (void)flags;
    LEAVE(known(device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    ENTER(cuDevicePrimaryCtxGetState);
    *flags = 0;
    *active = 1;
    LEAVE(known(device));
}

static CUresult create_context(CUcontext *context, CUdevice device)
{
    CUresult result = known(device);
    if (result)
        return result;
    *context = sim_new_context(device, false);
    sim_set_context(*context);
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned flags,
                        CUdevice device)
{
    ENTER(cuCtxCreate_v4);
    (void)params;
    (void)flags;
    LEAVE(create_context(context, device));
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    ENTER(cuCtxCreate_v2);
    (void)flags;
    LEAVE(create_context(context, device));
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER(cuCtxDestroy_v2);
    bool was_current = sim_context() == context;
    sim_end_context(context);
    if (was_current)
        sim_set_context(NULL);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER(cuCtxGetCurrent);
    *context = sim_context();
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(cuCtxSetCurrent);
    sim_set_context(context);
    LEAVE(CUDA_SUCCESS);
}

static __thread CUcontext pushed[32];
static __thread int n_pushed;

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER(cuCtxPushCurrent_v2);
    if (n_pushed == 32)
        LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
    pushed[n_pushed++] = sim_context();
    sim_set_context(context);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER(cuCtxPopCurrent_v2);
    if (!sim_context())
        LEAVE(CUDA_ERROR_INVALID_CONTEXT);
    if (context)
        *context = sim_context();
    sim_set_context(n_pushed ? pushed[--n_pushed] : NULL);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(cuCtxGetDevice);
    *device = sim_current_device();
    LEAVE(*device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS);
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    ENTER(cuCtxGetId);
    context = context ? context : sim_context();
    *id = context ? context->id : 0;
    LEAVE(context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

static CUresult synchronize(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = sim_capture_forbids(NULL);
    if (result)
        return result;
    uint64_t start = sim_now();
    sim_wait_context(context);
    sim_report_wait(4, context, NULL, NULL, 0, start);
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    ENTER(cuCtxSynchronize);
    LEAVE(synchronize(sim_context()));
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    ENTER(cuCtxSynchronize_v2);
    LEAVE(synchronize(context ? context : sim_context()));
}

CUresult cuProfilerStart(void);
CUresult cuProfilerStart(void)
{
    ENTER(cuProfilerStart);
    LEAVE(sim_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuProfilerStop(void);
CUresult cuProfilerStop(void)
{
    ENTER(cuProfilerStop);
    LEAVE(sim_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER(cuCtxGetStreamPriorityRange);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    ENTER(cuCtxGetApiVersion);
    (void)context;
    *version = 3020;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER(cuCtxSetLimit);
    (void)limit;
    (void)value;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    ENTER(cuCtxGetLimit);
    (void)limit;
    *value = 8 << 20;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    ENTER(cuCtxEnablePeerAccess);
    (void)peer;
    (void)flags;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    ENTER(cuCtxDisablePeerAccess);
    (void)peer;
    LEAVE(CUDA_SUCCESS);
}

/* ---- errors, entry points ---- */

CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_OF_THE_SIMULATOR";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "no error" : "error of the simulated driver";
    return CUDA_SUCCESS;
}

/* Resolves the newest version of a name. */
static void *entry_point(const char *symbol)
{
    static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
    Dl_info self;
    char name[128];
    void *library =
        dladdr((void *)cuInit, &self) ? dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    void *found = NULL;
    for (int i = 0; library && !found && i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        found = dlsym(library, name);
    }
    if (library)
        dlclose(library);
    return found;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    (void)version;
    (void)flags;
    if (!symbol || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *function = entry_point(symbol);
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
