/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated CUDA runtime: memory of all kinds, pools, arrays, pointer attributes. */
#include "tests/sim/cudart.h"

#include <stdlib.h>
#include <string.h>

cudaError_t cudaMalloc(void **pointer, size_t n)
{
    RT(cudaMalloc, v3020);
    RT_END(drv.cuMemAlloc_v2((CUdeviceptr *)pointer, n));
}

cudaError_t cudaMallocManaged(void **pointer, size_t n, unsigned flags)
{
    RT(cudaMallocManaged, v6000);
    RT_END(drv.cuMemAllocManaged((CUdeviceptr *)pointer, n, flags));
}

cudaError_t cudaMallocHost(void **pointer, size_t n)
{
    RT(cudaMallocHost, v3020);
    RT_END(drv.cuMemAllocHost_v2(pointer, n));
}

cudaError_t cudaHostAlloc(void **pointer, size_t n, unsigned flags)
{
    RT(cudaHostAlloc, v3020);
    RT_END(drv.cuMemHostAlloc(pointer, n, flags));
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    RT(cudaMallocPitch, v3020);
    RT_END(drv.cuMemAllocPitch_v2((CUdeviceptr *)pointer, pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pointer, struct cudaExtent extent)
{
    RT(cudaMalloc3D, v3020);
    pointer->xsize = extent.width;
    pointer->ysize = extent.height;
    RT_END(drv.cuMemAllocPitch_v2((CUdeviceptr *)&pointer->ptr, &pointer->pitch, extent.width,
                                  extent.height * extent.depth, 4));
}

cudaError_t cudaFree(void *pointer)
{
    RT(cudaFree, v3020);
    RT_END(drv.cuMemFree_v2(DEVICE_AT(pointer)));
}

cudaError_t cudaFreeHost(void *pointer)
{
    RT(cudaFreeHost, v3020);
    RT_END(drv.cuMemFreeHost(pointer));
}

cudaError_t cudaHostRegister(void *pointer, size_t n, unsigned flags)
{
    RT(cudaHostRegister, v4000);
    RT_END(drv.cuMemHostRegister_v2(pointer, n, flags));
}

cudaError_t cudaHostUnregister(void *pointer)
{
    RT(cudaHostUnregister, v4000);
    RT_END(drv.cuMemHostUnregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    RT(cudaHostGetDevicePointer, v3020);
    (void)flags;
    *device = host;
    RT_END(cudaSuccess);
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *pointer)
{
    RT(cudaHostGetFlags, v3020);
    RT_END(drv.cuMemHostGetFlags(flags, pointer));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    RT(cudaMemGetInfo, v3020);
    RT_END(drv.cuMemGetInfo_v2(free_bytes, total));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    RT(cudaPointerGetAttributes, v4000);
    unsigned type = 0, managed = 0;
    memset(attributes, 0, sizeof *attributes);
    attributes->hostPointer = (void *)pointer;
    attributes->device = -2;
    if (drv.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, DEVICE_AT(pointer)))
        RT_END(cudaSuccess);
    drv.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, DEVICE_AT(pointer));
    drv.cuPointerGetAttribute(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                              DEVICE_AT(pointer));
    attributes->devicePointer = (void *)pointer;
    attributes->type = managed                      ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    if (attributes->type == cudaMemoryTypeDevice)
        attributes->hostPointer = NULL;
    RT_END(cudaSuccess);
}

/* ---- arrays ---- */

static CUresult make_array(cudaArray_t *array, const struct cudaChannelFormatDesc *d, size_t width,
                           size_t height, size_t depth)
{
    int bits = d->x ? d->x : 8;
    bool is_float = d->f == cudaChannelFormatKindFloat;
    CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = width,
        .Height = height,
        .Depth = depth,
        .Format = bits == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
                  : bits == 16 ? (is_float ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_UNSIGNED_INT16)
                               : (is_float ? CU_AD_FORMAT_FLOAT : CU_AD_FORMAT_UNSIGNED_INT32),
        .NumChannels = 1u + (d->y > 0) + (d->z > 0) + (d->w > 0),
    };
    return drv.cuArray3DCreate_v2((CUarray *)array, &full);
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *d, size_t width,
                            size_t height, unsigned flags)
{
    RT(cudaMallocArray, v3020);
    (void)flags;
    RT_END(make_array(array, d, width, height, 0));
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *d,
                              struct cudaExtent extent, unsigned flags)
{
    RT(cudaMalloc3DArray, v3020);
    (void)flags;
    RT_END(make_array(array, d, extent.width, extent.height, extent.depth));
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    RT(cudaFreeArray, v3020);
    RT_END(drv.cuArrayDestroy((CUarray)array));
}

/* Returns the largest level. */
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array,
                                     const struct cudaChannelFormatDesc *d,
                                     struct cudaExtent extent, unsigned levels, unsigned flags)
{
    RT(cudaMallocMipmappedArray, v5000);
    (void)levels;
    (void)flags;
    RT_END(make_array((cudaArray_t *)array, d, extent.width, extent.height, extent.depth));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
    RT(cudaFreeMipmappedArray, v5000);
    RT_END(drv.cuArrayDestroy((CUarray)array));
}

/* ---- in stream order ---- */

cudaError_t cudaMallocAsync(void **pointer, size_t n, cudaStream_t stream)
{
    RT_Z(cudaMallocAsync, v11020, v11020);
    RT_END(drv.cuMemAllocAsync((CUdeviceptr *)pointer, n, STREAM(stream)));
}
TWIN(cudaMallocAsync, _ptsz);

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t n, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    RT_Z(cudaMallocFromPoolAsync, v11020, v11020);
    RT_END(drv.cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, n, pool, STREAM(stream)));
}
TWIN(cudaMallocFromPoolAsync, _ptsz);

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    RT_Z(cudaFreeAsync, v11020, v11020);
    RT_END(drv.cuMemFreeAsync(DEVICE_AT(pointer), STREAM(stream)));
}
TWIN(cudaFreeAsync, _ptsz);

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    RT(cudaMemPoolCreate, v11020);
    RT_END(drv.cuMemPoolCreate(pool, (const CUmemPoolProps *)properties));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    RT(cudaMemPoolDestroy, v11020);
    RT_END(drv.cuMemPoolDestroy(pool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    RT(cudaMemPoolTrimTo, v11020);
    RT_END(drv.cuMemPoolTrimTo(pool, keep));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr wanted, void *value)
{
    RT(cudaMemPoolGetAttribute, v11020);
    RT_END(drv.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)wanted, value));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr wanted, void *value)
{
    RT(cudaMemPoolSetAttribute, v11020);
    RT_END(drv.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)wanted, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n)
{
    RT(cudaMemPoolSetAccess, v11020);
    RT_END(drv.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)list, n));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    RT(cudaDeviceGetDefaultMemPool, v11020);
    RT_END(drv.cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    RT(cudaDeviceGetMemPool, v11020);
    RT_END(drv.cuDeviceGetMemPool(pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    RT(cudaDeviceSetMemPool, v11020);
    RT_END(drv.cuDeviceSetMemPool(device, pool));
}
