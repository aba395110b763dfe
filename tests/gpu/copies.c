/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of copy and memset, synchronous and asynchronous, with pageable, pinned, managed,
 * array and peer memory. Checks the copied data. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { N = 1 << 16 };

static cudaStream_t stream;

static void sync_stream(void)
{
    CHECK(cudaStreamSynchronize(stream));
    tally.stream_syncs++;
}

/* Waits for copies on the legacy stream, which may return before they have ended. `stream` does not
 * wait for the legacy stream. */
static void sync_device(void)
{
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
}

static void flat(char *pageable, char *pinned, char *a, char *b, char *managed)
{
    memset(pageable, 1, N);
    CHECK(cudaMemcpy(a, pageable, N, cudaMemcpyHostToDevice));
    tally_copy(HTOD, N);
    CHECK(cudaMemcpy(b, a, N, cudaMemcpyDeviceToDevice));
    tally_copy(DTOD, N);
    CHECK(cudaMemcpy(pinned, b, N, cudaMemcpyDeviceToHost));
    tally_copy(DTOH, N);
    EXPECT(pinned[0] == 1 && pinned[N - 1] == 1);
    CHECK(cudaMemcpyAsync(a, pageable, N / 2, cudaMemcpyHostToDevice, stream));
    tally_copy(HTOD, N / 2);
    memset(pageable, 9, N); /* an asynchronous copy from pageable memory has read it already */
    CHECK(cudaMemcpyAsync(b, pinned, N, cudaMemcpyDefault, stream));
    tally_copy(HTOD, N);
    CHECK(cudaMemcpyAsync(b, a, N / 4, cudaMemcpyDeviceToDevice, stream));
    tally_copy(DTOD, N / 4);
    CHECK(cudaMemcpyAsync(pinned, b, N, cudaMemcpyDeviceToHost, stream));
    tally_copy(DTOH, N);
    sync_stream();
    EXPECT(pinned[0] == 1 && pinned[N - 1] == 1);
    memset(managed, 5, N);
    CHECK(cudaMemcpyAsync(a, managed, N, cudaMemcpyDeviceToDevice, stream));
    tally_copy(DTOD, N);
    CHECK(cudaMemcpyAsync(pinned, a, N, cudaMemcpyDeviceToHost, stream));
    tally_copy(DTOH, N);
    sync_stream();
    EXPECT(pinned[N / 2] == 5);
}

static void fills(char *pinned, char *a)
{
    struct cudaPitchedPtr half = {a, 256, 256, 16}, other_half = {a + N / 2, 256, 256, 16};
    struct cudaExtent box = {256, 16, 8};
    CHECK(cudaMemset(a, 1, N)); /* returns before it has ended */
    tally_fill(N);
    sync_device();
    CHECK(cudaMemsetAsync(a, 2, N / 2, stream));
    tally_fill(N / 2);
    sync_stream();
    CHECK(cudaMemset2D(a, 512, 3, 256, 8));
    tally_fill(256 * 8);
    sync_device();
    CHECK(cudaMemset2DAsync(a + N / 2, 512, 4, 256, 8, stream));
    tally_fill(256 * 8);
    CHECK(cudaMemcpyAsync(pinned, a, N, cudaMemcpyDeviceToHost, stream));
    tally_copy(DTOH, N);
    sync_stream();
    EXPECT(pinned[0] == 3 && pinned[256] == 2 && pinned[N / 2] == 4 && pinned[N - 1] == 1);
    CHECK(cudaMemset3D(half, 6, box));
    tally_fill(256 * 16 * 8);
    CHECK(cudaMemset3DAsync(other_half, 7, box, stream));
    tally_fill(256 * 16 * 8);
    sync_device();
}

static void boxes(char *pageable, char *pinned)
{
    size_t pitch;
    char *rows;
    struct cudaPitchedPtr slab;
    struct cudaExtent extent = {100, 10, 3};
    CHECK(cudaMallocPitch((void **)&rows, &pitch, 100, 10));
    CHECK(cudaMalloc3D(&slab, extent));
    memset(pageable, 8, N);
    CHECK(cudaMemcpy2D(rows, pitch, pageable, 100, 100, 10, cudaMemcpyHostToDevice));
    tally_copy(HTOD, 1000);
    sync_device();
    CHECK(cudaMemcpy2DAsync(pinned, 200, rows, pitch, 100, 10, cudaMemcpyDeviceToHost, stream));
    tally_copy(DTOH, 1000);
    sync_stream();
    EXPECT(pinned[0] == 8 && pinned[1800] == 8);
    struct cudaMemcpy3DParms up = {.srcPtr = {pageable, 100, 100, 10},
                                   .dstPtr = slab,
                                   .extent = extent,
                                   .kind = cudaMemcpyHostToDevice};
    CHECK(cudaMemcpy3D(&up));
    tally_copy(HTOD, 3000);
    sync_device();
    struct cudaMemcpy3DParms down = {.srcPtr = slab,
                                     .dstPtr = {pinned, 100, 100, 10},
                                     .extent = extent,
                                     .kind = cudaMemcpyDeviceToHost};
    CHECK(cudaMemcpy3DAsync(&down, stream));
    tally_copy(DTOH, 3000);
    sync_stream();
    EXPECT(pinned[2999] == 8);
    CHECK(cudaFree(rows));
    CHECK(cudaFree(slab.ptr));
    tally.allocs += 2;
    tally.frees += 2;
}

static void arrays(char *pageable, char *pinned, char *a)
{
    cudaArray_t one, two;
    struct cudaChannelFormatDesc bytes =
        cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    CHECK(cudaMallocArray(&one, &bytes, 64, 4, 0));
    CHECK(cudaMallocArray(&two, &bytes, 64, 4, 0));
    memset(pageable, 3, 256);
    CHECK(cudaMemcpy2DToArray(one, 0, 0, pageable, 64, 64, 4, cudaMemcpyHostToDevice));
    tally_copy(HTOA, 256);
    CHECK(cudaMemcpy2DArrayToArray(two, 0, 0, one, 0, 0, 64, 4, cudaMemcpyDeviceToDevice));
    tally_copy(ATOA, 256);
    CHECK(cudaMemcpy2DFromArray(a, 64, two, 0, 0, 64, 4, cudaMemcpyDeviceToDevice));
    tally_copy(ATOD, 256);
    sync_device();
    CHECK(cudaMemcpy2DToArrayAsync(one, 0, 0, a, 64, 64, 4, cudaMemcpyDeviceToDevice, stream));
    tally_copy(DTOA, 256);
    CHECK(cudaMemcpy2DFromArrayAsync(pinned, 64, one, 0, 0, 64, 4, cudaMemcpyDeviceToHost, stream));
    tally_copy(ATOH, 256);
    sync_stream();
    EXPECT(pinned[0] == 3 && pinned[255] == 3);
    CHECK(cudaFreeArray(one));
    CHECK(cudaFreeArray(two));
    tally.allocs += 2;
    tally.frees += 2;
}

static void peers(char *a, char *pinned)
{
    int count = 0;
    char *far;
    CHECK(cudaGetDeviceCount(&count));
    if (count < 2)
        return;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc((void **)&far, N));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemset(a, 11, N));
    tally_fill(N);
    CHECK(cudaMemcpyPeer(far, 1, a, 0, N));
    tally_copy(PTOP, N);
    sync_device();
    CHECK(cudaMemset(a, 12, N));
    tally_fill(N);
    sync_device();
    CHECK(cudaMemcpyPeerAsync(a, 0, far, 1, N, stream));
    tally_copy(PTOP, N);
    CHECK(cudaMemcpyAsync(pinned, a, N, cudaMemcpyDeviceToHost, stream));
    tally_copy(DTOH, N);
    sync_stream();
    EXPECT(pinned[0] == 11);
    CHECK(cudaSetDevice(1));
    CHECK(cudaFree(far));
    CHECK(cudaSetDevice(0));
    tally.allocs++;
    tally.frees++;
}

int main(void)
{
    char *pageable = malloc(N), *registered = malloc(N), *pinned, *a, *b, *managed;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&a, N));
    CHECK(cudaMalloc((void **)&b, N));
    CHECK(cudaMallocManaged((void **)&managed, N, cudaMemAttachGlobal));
    CHECK(cudaMallocHost((void **)&pinned, N));
    CHECK(cudaHostRegister(registered, N, cudaHostRegisterDefault));
    tally.allocs += 4;
    flat(pageable, pinned, a, b, managed);
    fills(pinned, a);
    boxes(pageable, pinned);
    arrays(pageable, pinned, a);
    peers(a, pinned);
    CHECK(cudaMemcpyAsync(registered, pinned, N, cudaMemcpyHostToHost, stream));
    tally_copy(HTOH, N);
    sync_stream();
    EXPECT(memcmp(registered, pinned, N) == 0);
    CHECK(cudaHostUnregister(registered));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    tally.frees += 4;
    CHECK(cudaStreamDestroy(stream));
    free(registered);
    free(pageable);
    return report();
}
