/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API: copies and fills. A device address is an address of this process. */
#include "tests/sim/core.h"

#include <cupti_activity.h>
#include <string.h>

#define AT(address) ((void *)(uintptr_t)(address))

enum {
    ANY = CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN,
    HTOD = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
    DTOH = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH,
    DTOD = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD,
};

static CUresult flat(CUstream stream, void *to, const void *from, size_t n, int kind, bool async)
{
    struct copy copy = {.to = to, .from = from, .width = n, .height = 1, .depth = 1, .kind = kind};
    return sim_copy(stream, &copy, async);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    ENTER_D(cuMemcpy);
    LEAVE(flat(STREAM(NULL), AT(to), AT(from), n, ANY, false));
}
TWIN(cuMemcpy, _ptds);

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream)
{
    ENTER_Z(cuMemcpyAsync);
    LEAVE(flat(STREAM(stream), AT(to), AT(from), n, ANY, true));
}
TWIN(cuMemcpyAsync, _ptsz);

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
    ENTER_D(cuMemcpyHtoD_v2);
    LEAVE(flat(STREAM(NULL), AT(to), from, n, HTOD, false));
}
TWIN(cuMemcpyHtoD_v2, _ptds);

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
    ENTER_D(cuMemcpyDtoH_v2);
    LEAVE(flat(STREAM(NULL), to, AT(from), n, DTOH, false));
}
TWIN(cuMemcpyDtoH_v2, _ptds);

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    ENTER_D(cuMemcpyDtoD_v2);
    LEAVE(flat(STREAM(NULL), AT(to), AT(from), n, DTOD, false));
}
TWIN(cuMemcpyDtoD_v2, _ptds);

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream)
{
    ENTER_Z(cuMemcpyHtoDAsync_v2);
    LEAVE(flat(STREAM(stream), AT(to), from, n, HTOD, true));
}
TWIN(cuMemcpyHtoDAsync_v2, _ptsz);

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream)
{
    ENTER_Z(cuMemcpyDtoHAsync_v2);
    LEAVE(flat(STREAM(stream), to, AT(from), n, DTOH, true));
}
TWIN(cuMemcpyDtoHAsync_v2, _ptsz);

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream)
{
    ENTER_Z(cuMemcpyDtoDAsync_v2);
    LEAVE(flat(STREAM(stream), AT(to), AT(from), n, DTOD, true));
}
TWIN(cuMemcpyDtoDAsync_v2, _ptsz);

/* ---- between devices ---- */

static CUresult peer(CUstream stream, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                     CUcontext from_context, size_t n, bool async)
{
    struct copy copy = {.to = AT(to),
                        .from = AT(from),
                        .width = n,
                        .height = 1,
                        .depth = 1,
                        .peer = true,
                        .to_context = to_context,
                        .from_context = from_context};
    return sim_copy(stream, &copy, async);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t n)
{
    ENTER_D(cuMemcpyPeer);
    LEAVE(peer(STREAM(NULL), to, to_context, from, from_context, n, false));
}
TWIN(cuMemcpyPeer, _ptds);

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t n, CUstream stream)
{
    ENTER_Z(cuMemcpyPeerAsync);
    LEAVE(peer(STREAM(stream), to, to_context, from, from_context, n, true));
}
TWIN(cuMemcpyPeerAsync, _ptsz);

/* ---- arrays: rows are contiguous ---- */

static CUresult array_copy(CUstream stream, void *to, const void *from, size_t n, int kind,
                           bool async)
{
    bool to_array = kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOA ||
                    kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOA ||
                    kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOA;
    bool from_array = kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOH ||
                      kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOD ||
                      kind == CUPTI_ACTIVITY_MEMCPY_KIND_ATOA;
    struct copy copy = {.to = to,
                        .from = from,
                        .width = n,
                        .height = 1,
                        .depth = 1,
                        .kind = kind,
                        .to_kind = to_array ? CUPTI_ACTIVITY_MEMORY_KIND_ARRAY : 0,
                        .from_kind = from_array ? CUPTI_ACTIVITY_MEMORY_KIND_ARRAY : 0};
    return sim_copy(stream, &copy, async);
}

#define IN(array, offset) ((char *)(array)->memory + (offset))

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t n)
{
    ENTER_D(cuMemcpyDtoA_v2);
    LEAVE(array_copy(STREAM(NULL), IN(to, offset), AT(from), n, CUPTI_ACTIVITY_MEMCPY_KIND_DTOA,
                     false));
}
TWIN(cuMemcpyDtoA_v2, _ptds);

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t n)
{
    ENTER_D(cuMemcpyAtoD_v2);
    LEAVE(array_copy(STREAM(NULL), AT(to), IN(from, offset), n, CUPTI_ACTIVITY_MEMCPY_KIND_ATOD,
                     false));
}
TWIN(cuMemcpyAtoD_v2, _ptds);

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t n)
{
    ENTER_D(cuMemcpyHtoA_v2);
    LEAVE(
        array_copy(STREAM(NULL), IN(to, offset), from, n, CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, false));
}
TWIN(cuMemcpyHtoA_v2, _ptds);

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t n)
{
    ENTER_D(cuMemcpyAtoH_v2);
    LEAVE(
        array_copy(STREAM(NULL), to, IN(from, offset), n, CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, false));
}
TWIN(cuMemcpyAtoH_v2, _ptds);

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t n)
{
    ENTER_D(cuMemcpyAtoA_v2);
    LEAVE(array_copy(STREAM(NULL), IN(to, to_offset), IN(from, from_offset), n,
                     CUPTI_ACTIVITY_MEMCPY_KIND_ATOA, false));
}
TWIN(cuMemcpyAtoA_v2, _ptds);

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t n,
                              CUstream stream)
{
    ENTER_Z(cuMemcpyHtoAAsync_v2);
    LEAVE(
        array_copy(STREAM(stream), IN(to, offset), from, n, CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, true));
}
TWIN(cuMemcpyHtoAAsync_v2, _ptsz);

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t n, CUstream stream)
{
    ENTER_Z(cuMemcpyAtoHAsync_v2);
    LEAVE(
        array_copy(STREAM(stream), to, IN(from, offset), n, CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, true));
}
TWIN(cuMemcpyAtoHAsync_v2, _ptsz);

/* ---- two and three dimensions ---- */

/* One side of a copy in two or three dimensions: first byte, pitch and slice. */
struct side {
    void *at;
    size_t pitch, slice;
    int kind;
};

static struct side side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
                        size_t x, size_t y, size_t z, size_t pitch, size_t height)
{
    struct side s = {.pitch = pitch, .slice = pitch * height};
    char *base = type == CU_MEMORYTYPE_HOST ? (char *)host : AT(device);
    if (type == CU_MEMORYTYPE_ARRAY) {
        base = array->memory;
        s.pitch = array->width * array->element;
        s.slice = s.pitch * (array->height ? array->height : 1);
        s.kind = CUPTI_ACTIVITY_MEMORY_KIND_ARRAY;
    }
    s.at = base + z * s.slice + y * s.pitch + x;
    return s;
}

static CUresult boxes(CUstream stream, struct side to, struct side from, size_t width,
                      size_t height, size_t depth, bool async)
{
    struct copy copy = {.to = to.at,
                        .from = from.at,
                        .width = width,
                        .height = height,
                        .depth = depth,
                        .to_pitch = to.pitch ? to.pitch : width,
                        .from_pitch = from.pitch ? from.pitch : width,
                        .to_slice = to.slice,
                        .from_slice = from.slice,
                        .to_kind = to.kind,
                        .from_kind = from.kind};
    return sim_copy(stream, &copy, async);
}

static CUresult copy_2d(CUstream stream, const CUDA_MEMCPY2D *p, bool async)
{
    return boxes(stream,
                 side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes,
                      p->dstY, 0, p->dstPitch, p->Height),
                 side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes,
                      p->srcY, 0, p->srcPitch, p->Height),
                 p->WidthInBytes, p->Height, 1, async);
}

static CUresult copy_3d(CUstream stream, const CUDA_MEMCPY3D *p, bool async)
{
    return boxes(stream,
                 side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes,
                      p->dstY, p->dstZ, p->dstPitch, p->dstHeight),
                 side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes,
                      p->srcY, p->srcZ, p->srcPitch, p->srcHeight),
                 p->WidthInBytes, p->Height, p->Depth, async);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *p)
{
    ENTER_D(cuMemcpy2D_v2);
    LEAVE(copy_2d(STREAM(NULL), p, false));
}
TWIN(cuMemcpy2D_v2, _ptds);

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p)
{
    ENTER_D(cuMemcpy2DUnaligned_v2);
    LEAVE(copy_2d(STREAM(NULL), p, false));
}
TWIN(cuMemcpy2DUnaligned_v2, _ptds);

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream)
{
    ENTER_Z(cuMemcpy2DAsync_v2);
    LEAVE(copy_2d(STREAM(stream), p, true));
}
TWIN(cuMemcpy2DAsync_v2, _ptsz);

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *p)
{
    ENTER_D(cuMemcpy3D_v2);
    LEAVE(copy_3d(STREAM(NULL), p, false));
}
TWIN(cuMemcpy3D_v2, _ptds);

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream)
{
    ENTER_Z(cuMemcpy3DAsync_v2);
    LEAVE(copy_3d(STREAM(stream), p, true));
}
TWIN(cuMemcpy3DAsync_v2, _ptsz);

static CUresult copy_3d_peer(CUstream stream, const CUDA_MEMCPY3D_PEER *p, bool async)
{
    struct side to = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes,
                          p->dstY, p->dstZ, p->dstPitch, p->dstHeight);
    struct side from = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes,
                            p->srcY, p->srcZ, p->srcPitch, p->srcHeight);
    struct copy copy = {.to = to.at,
                        .from = from.at,
                        .width = p->WidthInBytes,
                        .height = p->Height,
                        .depth = p->Depth,
                        .to_pitch = to.pitch,
                        .from_pitch = from.pitch,
                        .to_slice = to.slice,
                        .from_slice = from.slice,
                        .peer = true,
                        .to_context = p->dstContext,
                        .from_context = p->srcContext};
    return sim_copy(stream, &copy, async);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
    ENTER_D(cuMemcpy3DPeer);
    LEAVE(copy_3d_peer(STREAM(NULL), p, false));
}
TWIN(cuMemcpy3DPeer, _ptds);

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    ENTER_Z(cuMemcpy3DPeerAsync);
    LEAVE(copy_3d_peer(STREAM(stream), p, true));
}
TWIN(cuMemcpy3DPeerAsync, _ptsz);

/* ---- batches: one record for each copy ---- */

static CUresult batch(CUstream stream, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < n && !result; i++)
        result = flat(stream, AT(to[i]), AT(from[i]), sizes[i], ANY, true);
    return result;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                               CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                               CUstream stream)
{
    ENTER_Z(cuMemcpyBatchAsync_v2);
    (void)attributes;
    (void)indices;
    (void)n_attributes;
    LEAVE(batch(STREAM(stream), to, from, sizes, n));
}
TWIN(cuMemcpyBatchAsync_v2, _ptsz);

#undef cuMemcpyBatchAsync
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                            CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                            size_t *failed, CUstream stream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                            CUmemcpyAttributes *attributes, size_t *indices, size_t n_attributes,
                            size_t *failed, CUstream stream)
{
    ENTER_Z(cuMemcpyBatchAsync);
    (void)attributes;
    (void)indices;
    (void)n_attributes;
    (void)failed;
    LEAVE(batch(STREAM(stream), to, from, sizes, n));
}
TWIN(cuMemcpyBatchAsync, _ptsz);

static CUresult batch_3d(CUstream stream, size_t n, CUDA_MEMCPY3D_BATCH_OP *list)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < n && !result; i++) {
        const CUDA_MEMCPY3D_BATCH_OP *p = &list[i];
        struct side s[2];
        const CUmemcpy3DOperand *operands[2] = {&p->dst, &p->src};
        for (int k = 0; k < 2; k++) {
            const CUmemcpy3DOperand *o = operands[k];
            s[k] = o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY
                       ? side(CU_MEMORYTYPE_ARRAY, NULL, 0, o->op.array.array, 0, 0, 0, 0, 0)
                       : side(CU_MEMORYTYPE_DEVICE, NULL, o->op.ptr.ptr, NULL, 0, 0, 0,
                              o->op.ptr.rowLength ? o->op.ptr.rowLength : p->extent.width,
                              o->op.ptr.layerHeight ? o->op.ptr.layerHeight : p->extent.height);
        }
        result =
            boxes(stream, s[0], s[1], p->extent.width, p->extent.height, p->extent.depth, true);
    }
    return result;
}

CUresult cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags,
                                 CUstream stream)
{
    ENTER_Z(cuMemcpy3DBatchAsync_v2);
    (void)flags;
    LEAVE(batch_3d(STREAM(stream), n, list));
}
TWIN(cuMemcpy3DBatchAsync_v2, _ptsz);

#undef cuMemcpy3DBatchAsync
CUresult cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                              unsigned long long flags, CUstream stream);
CUresult cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                              unsigned long long flags, CUstream stream)
{
    ENTER_Z(cuMemcpy3DBatchAsync);
    (void)failed;
    (void)flags;
    LEAVE(batch_3d(STREAM(stream), n, list));
}
TWIN(cuMemcpy3DBatchAsync, _ptsz);

/* ---- fills ---- */

static CUresult fill_rows(CUstream stream, CUdeviceptr to, size_t pitch, unsigned value,
                          unsigned element, size_t width, size_t height, bool async)
{
    struct fill fill = {AT(to), width, height, pitch, value, element};
    return sim_fill(stream, &fill, async);
}

#define FILLS(bits, type)                                                                          \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t n)                            \
    {                                                                                              \
        ENTER_D(cuMemsetD##bits##_v2);                                                             \
        LEAVE(fill_rows(STREAM(NULL), to, 0, value, bits / 8, n, 1, false));                       \
    }                                                                                              \
    TWIN(cuMemsetD##bits##_v2, _ptds);                                                             \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t n, CUstream stream)         \
    {                                                                                              \
        ENTER_Z(cuMemsetD##bits##Async);                                                           \
        LEAVE(fill_rows(STREAM(stream), to, 0, value, bits / 8, n, 1, true));                      \
    }                                                                                              \
    TWIN(cuMemsetD##bits##Async, _ptsz);                                                           \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width,        \
                                    size_t height)                                                 \
    {                                                                                              \
        ENTER_D(cuMemsetD2D##bits##_v2);                                                           \
        LEAVE(fill_rows(STREAM(NULL), to, pitch, value, bits / 8, width, height, false));          \
    }                                                                                              \
    TWIN(cuMemsetD2D##bits##_v2, _ptds);                                                           \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,      \
                                      size_t height, CUstream stream)                              \
    {                                                                                              \
        ENTER_Z(cuMemsetD2D##bits##Async);                                                         \
        LEAVE(fill_rows(STREAM(stream), to, pitch, value, bits / 8, width, height, true));         \
    }                                                                                              \
    TWIN(cuMemsetD2D##bits##Async, _ptsz)

FILLS(8, unsigned char);
FILLS(16, unsigned short);
FILLS(32, unsigned);
