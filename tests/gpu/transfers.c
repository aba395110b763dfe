/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL transfers of rank 1 of 4; the other ranks do not exist. Collectives, a send and a receive,
 * groups, a split communicator, and a communicator that may reuse a freed address. --groups N: N
 * more communicators; every second one is destroyed before the others are used again. --estimates
 * N: N groups first, of which only the cost is estimated. Simulated GPU only (libnccl.c). */
#include "tests/gpu/nccl.h"

#include <errno.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { GROUPS_MOST = 200 };

/* The call must pass errno to the library and back, as without a profiler. */
#define SENT(call)                                                                                 \
    do {                                                                                           \
        errno = 100;                                                                               \
        CHECK(call);                                                                               \
        EXPECT(errno == 101);                                                                      \
    } while (0)

static void many_groups(long n, float *from, float *to, cudaStream_t stream)
{
    static ncclComm_t groups[GROUPS_MOST];
    ncclUniqueId id = {.internal = {[127] = 0x51}};
    for (long i = 0; i < n; i++)
        CHECK(ncclCommInitRank(&groups[i], 8, id, 5));
    for (long round = 0; round < 2; round++) {
        for (long i = round; i < n; i += 1 + round) {
            SENT(ncclAllReduce(from, to, 4, ncclFloat, ncclSum, groups[i], stream));
            tally.kernels++;
        }
        for (long i = round; i < n; i += 2)
            CHECK(ncclCommDestroy(groups[i]));
    }
}

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 3), groups = number(argc, argv, "groups", 0);
    ncclUniqueId id = {.internal = {[127] = 0x51}};
    ncclComm_t world, half, again;
    cudaStream_t stream;
    float *from, *to;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc((void **)&from, 1 << 20));
    CHECK(cudaMalloc((void **)&to, 1 << 20));
    tally.allocs += 2;
    CHECK(ncclCommInitRank(&world, 4, id, 1));
    CHECK(ncclCommSplit(world, 1, 0, &half, NULL));
    for (long i = number(argc, argv, "estimates", 0); i > 0; i--) {
        CHECK(ncclGroupStart());
        SENT(ncclAllReduce(from, to, 3, ncclFloat, ncclSum, half, stream));
        CHECK(ncclGroupSimulateEnd(&half));
    }
    for (long i = 0; i < rounds; i++) {
        SENT(ncclAllReduce(from, to, 1000, ncclFloat, ncclSum, world, stream));
        SENT(ncclReduce(from, to, 10, ncclInt64, ncclSum, 3, world, stream));
        SENT(ncclBroadcast(from, to, 20, ncclInt8, 2, world, stream));
        SENT(ncclReduceScatter(from, to, 250, ncclBfloat16, ncclSum, world, stream));
        SENT(ncclAllGather(from, to, 512, ncclHalf, half, stream));
        SENT(ncclBcast(to, 30, ncclFloat, 0, world, stream));
        tally.kernels += 6;
        CHECK(ncclGroupStart());
        SENT(ncclSend(from, 100, ncclFloat, 2, world, stream));
        SENT(ncclRecv(to, 100, ncclFloat, 0, world, stream));
        CHECK(ncclGroupEnd());
        CHECK(ncclGroupStart());
        CHECK(ncclGroupStart()); /* groups nest */
        SENT(ncclAllReduce(from, to, 1, ncclFloat, ncclSum, world, stream));
        CHECK(ncclGroupEnd());
        SENT(ncclAllReduce(from, to, 2, ncclFloat, ncclSum, world, stream));
        CHECK(ncclGroupEnd());
        CHECK(ncclGroupStart());
        SENT(ncclAllReduce(from, to, 7, ncclFloat, ncclSum, world, stream));
        CHECK(ncclGroupEnd());
        CHECK(ncclGroupStart());
        SENT(ncclBcast(to, 9, ncclFloat, 0, world, stream));
        CHECK(ncclGroupEnd());
        tally.kernels += 4;
        CHECK(cudaStreamSynchronize(stream));
        tally.stream_syncs++;
        cprof_step();
    }
    CHECK(ncclCommDestroy(world));
    CHECK(ncclCommInitRank(&again, 2, id, 0));
    SENT(ncclAllReduce(from, to, 5, ncclFloat, ncclSum, again, stream));
    tally.kernels++;
    many_groups(groups < GROUPS_MOST ? groups : GROUPS_MOST, from, to, stream);
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    CHECK(ncclCommDestroy(half));
    CHECK(ncclCommDestroy(again));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    tally.frees += 2;
    CHECK(cudaStreamDestroy(stream));
    return report();
}
