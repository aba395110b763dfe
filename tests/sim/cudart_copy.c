/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated CUDA runtime: copies and fills. */
#include "tests/sim/cudart.h"

#include <string.h>

/* ---- flat copies ---- */

static CUresult flat(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, bool twin_)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return EITHER(cuMemcpyHtoD_v2)(DEVICE_AT(to), from, n);
    case cudaMemcpyDeviceToHost:
        return EITHER(cuMemcpyDtoH_v2)(to, DEVICE_AT(from), n);
    case cudaMemcpyDeviceToDevice:
        return EITHER(cuMemcpyDtoD_v2)(DEVICE_AT(to), DEVICE_AT(from), n);
    default:
        return EITHER(cuMemcpy)(DEVICE_AT(to), DEVICE_AT(from), n);
    }
}

static CUresult flat_async(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                           cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return drv.cuMemcpyHtoDAsync_v2(DEVICE_AT(to), from, n, stream);
    case cudaMemcpyDeviceToHost:
        return drv.cuMemcpyDtoHAsync_v2(to, DEVICE_AT(from), n, stream);
    case cudaMemcpyDeviceToDevice:
        return drv.cuMemcpyDtoDAsync_v2(DEVICE_AT(to), DEVICE_AT(from), n, stream);
    default:
        return drv.cuMemcpyAsync(DEVICE_AT(to), DEVICE_AT(from), n, stream);
    }
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpy, v3020, v7000);
    RT_END(flat(to, from, n, kind, twin_));
}
TWIN(cudaMemcpy, _ptds);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    RT_Z(cudaMemcpyAsync, v3020, v7000);
    RT_END(flat_async(to, from, n, kind, STREAM(stream)));
}
TWIN(cudaMemcpyAsync, _ptsz);

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t n, size_t offset,
                               enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpyToSymbol, v3020, v7000);
    RT_END(flat((char *)symbol + offset, from, n, kind, twin_));
}
TWIN(cudaMemcpyToSymbol, _ptds);

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t n, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_Z(cudaMemcpyToSymbolAsync, v3020, v7000);
    RT_END(flat_async((char *)symbol + offset, from, n, kind, STREAM(stream)));
}
TWIN(cudaMemcpyToSymbolAsync, _ptsz);

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpyFromSymbol, v3020, v7000);
    RT_END(flat(to, (const char *)symbol + offset, n, kind, twin_));
}
TWIN(cudaMemcpyFromSymbol, _ptds);

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t n, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_Z(cudaMemcpyFromSymbolAsync, v3020, v7000);
    RT_END(flat_async(to, (const char *)symbol + offset, n, kind, STREAM(stream)));
}
TWIN(cudaMemcpyFromSymbolAsync, _ptsz);

cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol)
{
    RT(cudaGetSymbolAddress, v3020);
    *pointer = (void *)symbol;
    RT_END(cudaSuccess);
}

/* ---- between devices ---- */

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t n)
{
    RT(cudaMemcpyPeer, v4000);
    RT_END(drv.cuMemcpyPeer(DEVICE_AT(to), rt_context_of(to_device), DEVICE_AT(from),
                            rt_context_of(from_device), n));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t n, cudaStream_t stream)
{
    RT(cudaMemcpyPeerAsync, v4000);
    RT_END(drv.cuMemcpyPeerAsync(DEVICE_AT(to), rt_context_of(to_device), DEVICE_AT(from),
                                 rt_context_of(from_device), n, stream));
}

/* ---- two dimensions ---- */

static CUDA_MEMCPY2D rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = DEVICE_AT(from),
                           .srcPitch = from_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = DEVICE_AT(to),
                           .dstPitch = to_pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

static void from_array(CUDA_MEMCPY2D *p, cudaArray_const_t array, size_t x, size_t y)
{
    p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    p->srcArray = (CUarray)array;
    p->srcXInBytes = x;
    p->srcY = y;
}

static void to_array(CUDA_MEMCPY2D *p, cudaArray_t array, size_t x, size_t y)
{
    p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    p->dstArray = (CUarray)array;
    p->dstXInBytes = x;
    p->dstY = y;
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpy2D, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(to, to_pitch, from, from_pitch, width, height);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpy2D, _ptds);

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    RT_Z(cudaMemcpy2DAsync, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(to, to_pitch, from, from_pitch, width, height);
    RT_END(drv.cuMemcpy2DAsync_v2(&p, STREAM(stream)));
}
TWIN(cudaMemcpy2DAsync, _ptsz);

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                size_t width, size_t height, enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpy2DToArray, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(NULL, 0, from, pitch, width, height);
    to_array(&p, to, x, y);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpy2DToArray, _ptds);

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from,
                                     size_t pitch, size_t width, size_t height,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_Z(cudaMemcpy2DToArrayAsync, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(NULL, 0, from, pitch, width, height);
    to_array(&p, to, x, y);
    RT_END(drv.cuMemcpy2DAsync_v2(&p, STREAM(stream)));
}
TWIN(cudaMemcpy2DToArrayAsync, _ptsz);

cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x,
                                  size_t y, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpy2DFromArray, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(to, pitch, NULL, 0, width, height);
    from_array(&p, from, x, y);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpy2DFromArray, _ptds);

cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x,
                                       size_t y, size_t width, size_t height,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_Z(cudaMemcpy2DFromArrayAsync, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(to, pitch, NULL, 0, width, height);
    from_array(&p, from, x, y);
    RT_END(drv.cuMemcpy2DAsync_v2(&p, STREAM(stream)));
}
TWIN(cudaMemcpy2DFromArrayAsync, _ptsz);

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y,
                                     cudaArray_const_t from, size_t from_x, size_t from_y,
                                     size_t width, size_t height, enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpy2DArrayToArray, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(NULL, 0, NULL, 0, width, height);
    to_array(&p, to, to_x, to_y);
    from_array(&p, from, from_x, from_y);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpy2DArrayToArray, _ptds);

/* The flat array copies are no longer in the newest headers but still exported. They count
 * bytes, one row after another. */
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t n,
                              enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t n,
                              enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpyToArray, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(NULL, 0, from, n, n, 1);
    to_array(&p, to, x, y);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpyToArray, _ptds);

cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t n,
                                   enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t n,
                                   enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_Z(cudaMemcpyToArrayAsync, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(NULL, 0, from, n, n, 1);
    to_array(&p, to, x, y);
    RT_END(drv.cuMemcpy2DAsync_v2(&p, STREAM(stream)));
}
TWIN(cudaMemcpyToArrayAsync, _ptsz);

cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t n,
                                enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t n,
                                enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpyFromArray, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(to, n, NULL, 0, n, 1);
    from_array(&p, from, x, y);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpyFromArray, _ptds);

cudaError_t cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y, size_t n,
                                     enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y, size_t n,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    RT_Z(cudaMemcpyFromArrayAsync, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(to, n, NULL, 0, n, 1);
    from_array(&p, from, x, y);
    RT_END(drv.cuMemcpy2DAsync_v2(&p, STREAM(stream)));
}
TWIN(cudaMemcpyFromArrayAsync, _ptsz);

cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                   size_t from_x, size_t from_y, size_t n,
                                   enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                   size_t from_x, size_t from_y, size_t n, enum cudaMemcpyKind kind)
{
    RT_D(cudaMemcpyArrayToArray, v3020, v7000);
    (void)kind;
    CUDA_MEMCPY2D p = rows(NULL, 0, NULL, 0, n, 1);
    to_array(&p, to, to_x, to_y);
    from_array(&p, from, from_x, from_y);
    RT_END(EITHER(cuMemcpy2DUnaligned_v2)(&p));
}
TWIN(cudaMemcpyArrayToArray, _ptds);

/* ---- three dimensions ---- */

static CUDA_MEMCPY3D box(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c = {.srcXInBytes = p->srcPos.x,
                       .srcY = p->srcPos.y,
                       .srcZ = p->srcPos.z,
                       .srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
                       .srcDevice = DEVICE_AT(p->srcPtr.ptr),
                       .srcArray = (CUarray)p->srcArray,
                       .srcPitch = p->srcPtr.pitch,
                       .srcHeight = p->srcPtr.ysize,
                       .dstXInBytes = p->dstPos.x,
                       .dstY = p->dstPos.y,
                       .dstZ = p->dstPos.z,
                       .dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
                       .dstDevice = DEVICE_AT(p->dstPtr.ptr),
                       .dstArray = (CUarray)p->dstArray,
                       .dstPitch = p->dstPtr.pitch,
                       .dstHeight = p->dstPtr.ysize,
                       .WidthInBytes = p->extent.width,
                       .Height = p->extent.height,
                       .Depth = p->extent.depth};
    return c;
}

static CUDA_MEMCPY3D_PEER peer_box(const struct cudaMemcpy3DPeerParms *p)
{
    CUDA_MEMCPY3D_PEER c = {
        .srcXInBytes = p->srcPos.x,
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
        .srcDevice = DEVICE_AT(p->srcPtr.ptr),
        .srcArray = (CUarray)p->srcArray,
        .srcContext = rt_context_of(p->srcDevice),
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x,
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
        .dstDevice = DEVICE_AT(p->dstPtr.ptr),
        .dstArray = (CUarray)p->dstArray,
        .dstContext = rt_context_of(p->dstDevice),
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width,
        .Height = p->extent.height,
        .Depth = p->extent.depth};
    return c;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    RT_D(cudaMemcpy3D, v3020, v7000);
    CUDA_MEMCPY3D c = box(p);
    RT_END(EITHER(cuMemcpy3D_v2)(&c));
}
TWIN(cudaMemcpy3D, _ptds);

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    RT_Z(cudaMemcpy3DAsync, v3020, v7000);
    CUDA_MEMCPY3D c = box(p);
    RT_END(drv.cuMemcpy3DAsync_v2(&c, STREAM(stream)));
}
TWIN(cudaMemcpy3DAsync, _ptsz);

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    RT_D(cudaMemcpy3DPeer, v4000, v7000);
    CUDA_MEMCPY3D_PEER c = peer_box(p);
    RT_END(drv.cuMemcpy3DPeer(&c));
}
TWIN(cudaMemcpy3DPeer, _ptds);

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    RT_Z(cudaMemcpy3DPeerAsync, v4000, v7000);
    CUDA_MEMCPY3D_PEER c = peer_box(p);
    RT_END(drv.cuMemcpy3DPeerAsync(&c, STREAM(stream)));
}
TWIN(cudaMemcpy3DPeerAsync, _ptsz);

/* ---- batches: their prototypes changed with CUDA 13 ---- */

#if SIM_CUDART == 12
cudaError_t batch_12(void **to, void **from, size_t *sizes, size_t n,
                     struct cudaMemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                     size_t *failed, cudaStream_t stream) __asm__("cudaMemcpyBatchAsync");
cudaError_t batch_12(void **to, void **from, size_t *sizes, size_t n,
                     struct cudaMemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                     size_t *failed, cudaStream_t stream)
{
    bool twin_ = sim_take_twin();
    RT_OPEN(cudaMemcpyBatchAsync,
            twin_ ? (uint32_t)CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v12080
                  : (uint32_t)CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v12080,
            true);
    (void)failed;
    RT_END(drv.cuMemcpyBatchAsync_v2((CUdeviceptr *)to, (CUdeviceptr *)from, sizes, n,
                                     (CUmemcpyAttributes *)attributes, indices, n_attributes,
                                     STREAM(stream)));
}

cudaError_t batch_3d_12(size_t n, struct cudaMemcpy3DBatchOp *list, size_t *failed,
                        unsigned long long flags,
                        cudaStream_t stream) __asm__("cudaMemcpy3DBatchAsync");
cudaError_t batch_3d_12(size_t n, struct cudaMemcpy3DBatchOp *list, size_t *failed,
                        unsigned long long flags, cudaStream_t stream)
{
    bool twin_ = sim_take_twin();
    RT_OPEN(cudaMemcpy3DBatchAsync,
            twin_ ? (uint32_t)CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DBatchAsync_ptsz_v12080
                  : (uint32_t)CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DBatchAsync_v12080,
            true);
    (void)failed;
    RT_END(drv.cuMemcpy3DBatchAsync_v2(n, (CUDA_MEMCPY3D_BATCH_OP *)list, flags, STREAM(stream)));
}
#else
cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *sizes,
                                 size_t n, struct cudaMemcpyAttributes *attributes, size_t *indices,
                                 size_t n_attributes, cudaStream_t stream)
{
    RT_Z(cudaMemcpyBatchAsync, v13000, v13000);
    RT_END(drv.cuMemcpyBatchAsync_v2((CUdeviceptr *)to, (CUdeviceptr *)from, (size_t *)sizes, n,
                                     (CUmemcpyAttributes *)attributes, indices, n_attributes,
                                     STREAM(stream)));
}

cudaError_t cudaMemcpy3DBatchAsync(size_t n, struct cudaMemcpy3DBatchOp *list,
                                   unsigned long long flags, cudaStream_t stream)
{
    RT_Z(cudaMemcpy3DBatchAsync, v13000, v13000);
    RT_END(drv.cuMemcpy3DBatchAsync_v2(n, (CUDA_MEMCPY3D_BATCH_OP *)list, flags, STREAM(stream)));
}
#endif
TWIN(cudaMemcpyBatchAsync, _ptsz);
TWIN(cudaMemcpy3DBatchAsync, _ptsz);

/* ---- fills ---- */

cudaError_t cudaMemset(void *to, int value, size_t n)
{
    RT_D(cudaMemset, v3020, v7000);
    RT_END(EITHER(cuMemsetD8_v2)(DEVICE_AT(to), (unsigned char)value, n));
}
TWIN(cudaMemset, _ptds);

cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t stream)
{
    RT_Z(cudaMemsetAsync, v3020, v7000);
    RT_END(drv.cuMemsetD8Async(DEVICE_AT(to), (unsigned char)value, n, STREAM(stream)));
}
TWIN(cudaMemsetAsync, _ptsz);

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    RT_D(cudaMemset2D, v3020, v7000);
    RT_END(EITHER(cuMemsetD2D8_v2)(DEVICE_AT(to), pitch, (unsigned char)value, width, height));
}
TWIN(cudaMemset2D, _ptds);

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    RT_Z(cudaMemset2DAsync, v3020, v7000);
    RT_END(drv.cuMemsetD2D8Async(DEVICE_AT(to), pitch, (unsigned char)value, width, height,
                                 STREAM(stream)));
}
TWIN(cudaMemset2DAsync, _ptsz);

/* Slices of the full height are contiguous and become one fill. Otherwise each slice is one
 * fill. */
static CUresult fill_3d(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                        cudaStream_t stream)
{
    CUresult result = CUDA_SUCCESS;
    bool whole = extent.height == to.ysize;
    size_t height = whole ? extent.height * extent.depth : extent.height;
    for (size_t z = 0; z < (whole ? 1 : extent.depth) && !result; z++)
        result =
            drv.cuMemsetD2D8Async(DEVICE_AT((char *)to.ptr + z * to.pitch * to.ysize), to.pitch,
                                  (unsigned char)value, extent.width, height, stream);
    return result;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr to, int value, struct cudaExtent extent)
{
    RT_D(cudaMemset3D, v3020, v7000);
    RT_END(fill_3d(to, value, extent, STREAM(NULL)));
}
TWIN(cudaMemset3D, _ptds);

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                              cudaStream_t stream)
{
    RT_Z(cudaMemset3DAsync, v3020, v7000);
    RT_END(fill_3d(to, value, extent, STREAM(stream)));
}
TWIN(cudaMemset3DAsync, _ptsz);
