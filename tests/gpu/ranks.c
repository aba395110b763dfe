/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL transfers between --ranks processes. This process is --rank and uses the device of that
 * number. The ranks find each other by the file --id, which rank 0 writes. A single rank sends to
 * itself. Each of --rounds checks the data. Prints the requested transfers. The simulated NCCL
 * (libnccl.c) sends nothing: use --check 0. In round --absent, the last rank waits for ever. In
 * round --refused, a transfer has an invalid root. */
#include <time.h>
#include <unistd.h>

#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/nccl.h"
#include "tests/gpu/program.h"

enum { COUNT = 1 << 20 };

static int size, rank, written;

static ncclUniqueId meet(const char *path)
{
    ncclUniqueId id;
    char part[1024];
    FILE *f;
    snprintf(part, sizeof part, "%s.part", path);
    if (rank == 0) {
        CHECK(ncclGetUniqueId(&id));
        f = fopen(part, "wb");
        EXPECT(f && fwrite(&id, sizeof id, 1, f) == 1 && fclose(f) == 0);
        EXPECT(rename(part, path) == 0);
        return id;
    }
    for (int tries = 0; !(f = fopen(path, "rb")) && tries < 3000; tries++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    EXPECT(f && fread(&id, sizeof id, 1, f) == 1);
    fclose(f);
    return id;
}

static void note(const char *name, long in, long out, long bytes)
{
    printf("%s{\"name\": \"%s\", \"in\": %ld, \"out\": %ld, \"bytes\": %ld}", written++ ? ", " : "",
           name, in, out, bytes);
}

int main(int argc, char **argv)
{
    long rounds = number(argc, argv, "rounds", 3), checks = number(argc, argv, "check", 1);
    long absent = number(argc, argv, "absent", -1), refused = number(argc, argv, "refused", -1);
    cudaStream_t stream;
    ncclComm_t world;
    float *from, *to, first = 0;
    rank = (int)number(argc, argv, "rank", 0);
    size = (int)number(argc, argv, "ranks", 1);
    const char *path = option(argc, argv, "id", NULL);
    EXPECT(size == 1 || path);
    CHECK(cudaSetDevice(rank));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&from, COUNT * sizeof *from));
    CHECK(cudaMalloc((void **)&to, COUNT * sizeof *to));
    ncclUniqueId id = meet(path ? path : "nccl_id");
    CHECK(ncclCommInitRank(&world, size, id, rank));
    printf("{\"ranks\": %d, \"rank\": %d, \"transfers\": [", size, rank);
    for (long i = 0; i < rounds; i++) {
        long share = COUNT / size;
        if (i == absent && rank == size - 1)
            pause();
        if (i == refused)
            EXPECT(ncclBroadcast(from, to, COUNT, ncclFloat, size, world, stream) != ncclSuccess);
        CHECK(cudaMemsetAsync(from, 0, COUNT * sizeof *from, stream));
        CHECK(gpu_add(stream, from, 1, COUNT));
        CHECK(ncclAllReduce(from, to, COUNT, ncclFloat, ncclSum, world, stream));
        note("ncclAllReduce", COUNT, COUNT, COUNT * 4);
        CHECK(cudaMemcpyAsync(&first, to, sizeof first, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(!checks || first == (float)size);
        CHECK(ncclReduceScatter(from, to, (size_t)share, ncclFloat, ncclSum, world, stream));
        note("ncclReduceScatter", share * size, share, share * size * 4);
        CHECK(ncclAllGather(from, to, (size_t)share, ncclFloat, world, stream));
        note("ncclAllGather", share, share * size, share * size * 4);
        CHECK(ncclBroadcast(from, to, COUNT, ncclFloat, 0, world, stream));
        note("ncclBroadcast", COUNT, COUNT, COUNT * 4);
        CHECK(ncclGroupStart());
        CHECK(ncclSend(from, 1000, ncclFloat, (rank + 1) % size, world, stream));
        CHECK(ncclRecv(to, 1000, ncclFloat, (rank + size - 1) % size, world, stream));
        CHECK(ncclGroupEnd());
        note("ncclSend", 1000, 0, 4000);
        note("ncclRecv", 0, 1000, 4000);
        CHECK(cudaStreamSynchronize(stream));
        cprof_step();
    }
    printf("]}\n");
    CHECK(ncclCommDestroy(world));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
