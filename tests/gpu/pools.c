/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of several kinds: in stream order from the default pool and from a pool of its own,
 * managed and pinned. --rounds N. */
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 5);
    cudaStream_t stream;
    cudaMemPool_t pool, standard;
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    unsigned long long used = 0, threshold = 64u << 20;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    for (long i = 0; i < rounds; i++) {
        float *a, *b, *managed, *pinned;
        CHECK(cudaMallocAsync((void **)&a, 1 << 20, stream));
        CHECK(cudaMallocFromPoolAsync((void **)&b, 1 << 18, pool, stream));
        CHECK(cudaMallocManaged((void **)&managed, 4096, cudaMemAttachGlobal));
        CHECK(cudaHostAlloc((void **)&pinned, 4096, cudaHostAllocDefault));
        tally.allocs += 4;
        CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
        EXPECT(used >= 1 << 18);
        CHECK(cudaMemsetAsync(a, 0, 4096, stream));
        tally_fill(4096);
        CHECK(gpu_add(stream, a, 2, 1024));
        tally.kernels++;
        CHECK(cudaMemcpyAsync(b, a, 4096, cudaMemcpyDeviceToDevice, stream));
        tally_copy(DTOD, 4096);
        CHECK(cudaMemcpyAsync(pinned, b, 4096, cudaMemcpyDeviceToHost, stream));
        tally_copy(DTOH, 4096);
        CHECK(cudaFreeAsync(a, stream));
        CHECK(cudaFreeAsync(b, stream));
        CHECK(cudaStreamSynchronize(stream));
        tally.stream_syncs++;
        EXPECT(pinned[1023] == 2);
        CHECK(cudaFree(managed));
        CHECK(cudaFreeHost(pinned));
        tally.frees += 4;
    }
    CHECK(cudaMemPoolTrimTo(standard, 0));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(stream));
    return report();
}
