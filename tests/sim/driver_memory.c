/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API: memory of all kinds, pools, arrays, pointer attributes. */
#include "tests/sim/core.h"

#include <cupti_activity.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEVICE = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
    PINNED = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
    MANAGED = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED,
    ARRAY = CUPTI_ACTIVITY_MEMORY_KIND_ARRAY,
};

#define AT(address) ((void *)(uintptr_t)(address))

static CUresult allocate(CUdeviceptr *pointer, size_t n, int kind, unsigned flags, const char *name)
{
    void *memory = NULL;
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_allocate(&memory, n, kind, flags, name);
    if (!result)
        *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER(cuMemGetInfo_v2);
    int device = sim_current_device();
    if (device < 0)
        LEAVE(CUDA_ERROR_INVALID_CONTEXT);
    *total = sim_device(device)->memory_bytes;
    *free_bytes = *total - sim_memory_used(device);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t n)
{
    ENTER(cuMemAlloc_v2);
    LEAVE(allocate(pointer, n, DEVICE, 0, "cuMemAlloc_v2"));
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned element)
{
    ENTER(cuMemAllocPitch_v2);
    (void)element;
    *pitch = (width + 511) & ~(size_t)511;
    LEAVE(allocate(pointer, *pitch * height, DEVICE, 0, "cuMemAllocPitch_v2"));
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t n, unsigned flags)
{
    ENTER(cuMemAllocManaged);
    LEAVE(allocate(pointer, n, MANAGED, flags, "cuMemAllocManaged"));
}

CUresult cuMemAllocHost_v2(void **pointer, size_t n)
{
    ENTER(cuMemAllocHost_v2);
    LEAVE(sim_allocate(pointer, n, PINNED, 0, "cuMemAllocHost_v2"));
}

CUresult cuMemHostAlloc(void **pointer, size_t n, unsigned flags)
{
    ENTER(cuMemHostAlloc);
    LEAVE(sim_allocate(pointer, n, PINNED, flags, "cuMemHostAlloc"));
}

CUresult cuMemHostRegister_v2(void *pointer, size_t n, unsigned flags)
{
    ENTER(cuMemHostRegister_v2);
    LEAVE(sim_register(pointer, n, flags));
}

CUresult cuMemHostUnregister(void *pointer)
{
    ENTER(cuMemHostUnregister);
    LEAVE(sim_unregister(pointer));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned flags)
{
    ENTER(cuMemHostGetDevicePointer_v2);
    (void)flags;
    *pointer = (CUdeviceptr)(uintptr_t)host;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer)
{
    ENTER(cuMemHostGetFlags);
    struct allocation found;
    bool is = sim_find(pointer, &found);
    *flags = is ? found.flags : 0;
    LEAVE(is ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    ENTER(cuMemFree_v2);
    LEAVE(sim_free(AT(pointer), "cuMemFree_v2"));
}

CUresult cuMemFreeHost(void *pointer)
{
    ENTER(cuMemFreeHost);
    LEAVE(sim_free(pointer, "cuMemFreeHost"));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    ENTER(cuMemGetAddressRange_v2);
    struct allocation found;
    if (!sim_find(AT(pointer), &found))
        LEAVE(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = found.address;
    if (size)
        *size = found.bytes;
    LEAVE(CUDA_SUCCESS);
}

/* ---- in stream order ---- */

static CUresult allocate_async(CUdeviceptr *pointer, size_t n, CUmemoryPool pool, CUstream stream,
                               const char *name)
{
    void *memory = NULL;
    CUresult result = sim_allocate_async(&memory, n, pool, stream, name);
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t n, CUstream stream)
{
    ENTER_Z(cuMemAllocAsync);
    LEAVE(allocate_async(pointer, n, NULL, STREAM(stream), "cuMemAllocAsync"));
}
TWIN(cuMemAllocAsync, _ptsz);

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t n, CUmemoryPool pool, CUstream stream)
{
    ENTER_Z(cuMemAllocFromPoolAsync);
    LEAVE(allocate_async(pointer, n, pool, STREAM(stream), "cuMemAllocFromPoolAsync"));
}
TWIN(cuMemAllocFromPoolAsync, _ptsz);

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    ENTER_Z(cuMemFreeAsync);
    LEAVE(sim_free_async(AT(pointer), STREAM(stream), "cuMemFreeAsync"));
}
TWIN(cuMemFreeAsync, _ptsz);

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    ENTER(cuMemPoolCreate);
    int device =
        properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : 0;
    *pool = sim_new_pool(device, false);
    LEAVE(*pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* The pool stays in the list, because allocations may refer to it. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    ENTER(cuMemPoolDestroy);
    LEAVE(pool && !pool->is_default ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    ENTER(cuMemPoolTrimTo);
    uint64_t least = pool->used > keep ? pool->used : keep;
    if (pool->reserved > least)
        pool->reserved = (least + (32u << 20) - 1) / (32u << 20) * (32u << 20);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute wanted, void *value)
{
    ENTER(cuMemPoolGetAttribute);
    uint64_t figure = wanted == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD      ? pool->threshold
                      : wanted == CU_MEMPOOL_ATTR_USED_MEM_CURRENT     ? pool->used
                      : wanted == CU_MEMPOOL_ATTR_USED_MEM_HIGH        ? pool->used_high
                      : wanted == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? pool->reserved
                      : wanted == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH    ? pool->reserved_high
                                                                       : 1;
    if (wanted <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        *(int *)value = 1;
    else
        memcpy(value, &figure, sizeof figure);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute wanted, void *value)
{
    ENTER(cuMemPoolSetAttribute);
    uint64_t figure;
    if (wanted == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        memcpy(&figure, value, sizeof figure);
        pool->threshold = figure;
    }
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t n)
{
    ENTER(cuMemPoolSetAccess);
    (void)pool;
    (void)list;
    (void)n;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    ENTER(cuDeviceGetDefaultMemPool);
    if (device < 0 || device >= sim_device_count())
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    *pool = sim_default_pool(device);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    ENTER(cuDeviceGetMemPool);
    if (device < 0 || device >= sim_device_count())
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    *pool = sim_device_pool(device);
    LEAVE(CUDA_SUCCESS);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    ENTER(cuDeviceSetMemPool);
    if (device < 0 || device >= sim_device_count())
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    sim_set_device_pool(device, pool);
    LEAVE(CUDA_SUCCESS);
}

/* ---- virtual memory: calls without effect ---- */

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t n, size_t alignment, CUdeviceptr address,
                             unsigned long long flags)
{
    ENTER(cuMemAddressReserve);
    (void)alignment;
    (void)address;
    (void)flags;
    LEAVE(allocate(pointer, n, DEVICE, 0, "cuMemAddressReserve"));
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t n)
{
    ENTER(cuMemAddressFree);
    (void)n;
    LEAVE(sim_free(AT(pointer), "cuMemAddressFree"));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t n,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    ENTER(cuMemCreate);
    (void)properties;
    (void)flags;
    *handle = n;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER(cuMemRelease);
    (void)handle;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t n, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    ENTER(cuMemMap);
    (void)pointer;
    (void)n;
    (void)offset;
    (void)handle;
    (void)flags;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t n)
{
    ENTER(cuMemUnmap);
    (void)pointer;
    (void)n;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t n, const CUmemAccessDesc *list, size_t count)
{
    ENTER(cuMemSetAccess);
    (void)pointer;
    (void)n;
    (void)list;
    (void)count;
    LEAVE(CUDA_SUCCESS);
}

/* ---- arrays ---- */

static size_t element_bytes(CUarray_format format, unsigned channels)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * channels;
    default:
        return 4 * channels;
    }
}

static CUresult make_array(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, const char *name)
{
    CUarray made = calloc(1, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->width = d->Width;
    made->height = d->Height;
    made->depth = d->Depth;
    made->format = d->Format;
    made->channels = d->NumChannels;
    made->element = element_bytes(d->Format, d->NumChannels);
    size_t bytes = made->width * made->element * (made->height ? made->height : 1) *
                   (made->depth ? made->depth : 1);
    CUresult result = sim_allocate(&made->memory, bytes, ARRAY, 0, name);
    if (result)
        free(made);
    else
        *array = made;
    return result;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
    ENTER(cuArrayCreate_v2);
    CUDA_ARRAY3D_DESCRIPTOR full = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    LEAVE(make_array(array, &full, "cuArrayCreate_v2"));
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    ENTER(cuArray3DCreate_v2);
    LEAVE(make_array(array, d, "cuArray3DCreate_v2"));
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array)
{
    ENTER(cuArray3DGetDescriptor_v2);
    *d = (CUDA_ARRAY3D_DESCRIPTOR){array->width,  array->height,   array->depth,
                                   array->format, array->channels, 0};
    LEAVE(CUDA_SUCCESS);
}

CUresult cuArrayDestroy(CUarray array)
{
    ENTER(cuArrayDestroy);
    if (!array)
        LEAVE(CUDA_SUCCESS);
    CUresult result = sim_free(array->memory, "cuArrayDestroy");
    free(array);
    LEAVE(result);
}

/* ---- pointers ---- */

static CUresult attribute(void *value, CUpointer_attribute wanted, CUdeviceptr pointer)
{
    struct allocation found;
    if (!sim_find(AT(pointer), &found))
        return CUDA_ERROR_INVALID_VALUE;
    switch (wanted) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = found.kind == PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = found.device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)value = found.kind == MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(CUdeviceptr *)value = pointer;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute wanted, CUdeviceptr pointer)
{
    ENTER(cuPointerGetAttribute);
    LEAVE(attribute(value, wanted, pointer));
}
