/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NCCL that sends nothing. It checks that its arguments are intact, and launches one
 * kernel with NCCL's name where NCCL would: in the call, or at the end of the outermost group,
 * inside the NVTX range that NCCL opens for each call. A transfer increments errno, a query of a
 * communicator overwrites it. With NCCL_SIM_ALONE=N, the kernel of launch N (from 0) does not end
 * for an hour, as if another rank did not come. */
#include "tests/gpu/nccl.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/gpu/kernels.h"
#include "tests/gpu/nvtx_client.h"

#define EXPORT    __attribute__((visibility("default")))
#define KERNEL_NS 20000u
#define HOUR_NS   3600000000000u
#define MARK      0x51u /* in the last byte of the id from the program */

struct ncclComm {
    int size, rank;
};

static __thread int depth;
static __thread cudaStream_t waiting; /* stream of the transfers in the group */
static __thread int waits;

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    *id = (ncclUniqueId){.internal = {[127] = MARK}};
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    static int attached;
    attached = attached || nvtx_attach();
    if (id.internal[127] != MARK || rank >= nranks)
        return ncclInvalidArgument;
    *comm = malloc(sizeof **comm);
    **comm = (struct ncclComm){nranks, rank};
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
                                  void *config)
{
    (void)config;
    *made = malloc(sizeof **made);
    **made = (struct ncclComm){comm->size / 2, key};
    return color == 1 ? ncclSuccess : ncclInvalidArgument;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
    nvtx_push(__func__); /* as NCCL 2.28 does */
    *count = comm->size;
    nvtx_pop();
    errno = EOVERFLOW;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
    nvtx_push(__func__);
    *rank = comm->rank;
    nvtx_pop();
    errno = EOVERFLOW;
    return ncclSuccess;
}

static ncclResult_t launch(cudaStream_t stream)
{
    static int launches;
    const char *alone = getenv("NCCL_SIM_ALONE");
    uint64_t ns = alone && launches++ == atoi(alone) ? HOUR_NS : KERNEL_NS;
    return gpu_named(stream, GPU_ALL_REDUCE, ns) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

static ncclResult_t transfer(const char *name, size_t count, int valid, cudaStream_t stream)
{
    int before = errno;
    if (count == 0 || !valid)
        return ncclInvalidArgument;
    nvtx_push(name);
    ncclResult_t result = ncclSuccess;
    if (depth == 0) {
        result = launch(stream);
    } else {
        waiting = stream;
        waits++;
    }
    nvtx_pop();
    errno = before + 1;
    return result;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    if (--depth > 0 || waits == 0)
        return ncclSuccess;
    nvtx_push(__func__);
    waits = 0;
    ncclResult_t result = launch(waiting);
    nvtx_pop();
    return result;
}

EXPORT ncclResult_t ncclGroupSimulateEnd(void *info)
{
    depth--;
    waits = 0;
    return info ? ncclSuccess : ncclInvalidArgument;
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return transfer(__func__, count, from != to && type <= 11 && op == ncclSum && comm->size > 0,
                    stream);
}

EXPORT ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return transfer(__func__, count, from != to && type <= 11 && op == ncclSum && root < comm->size,
                    stream);
}

EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream)
{
    return transfer(__func__, count, from && to && type <= 11 && root < comm->size, stream);
}

/* Calls through the symbol table, as NCCL does, so that another library's ncclBroadcast() may get
 * the call. */
EXPORT ncclResult_t ncclBcast(void *data, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream)
{
    return ncclBroadcast(data, data, count, type, root, comm, stream);
}

EXPORT ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return transfer(__func__, count, from != to && type <= 11 && op == ncclSum && comm->size > 0,
                    stream);
}

EXPORT ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return transfer(__func__, count, from != to && type <= 11 && comm->size > 0, stream);
}

EXPORT ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream)
{
    return transfer(__func__, count, from && type <= 11 && peer < comm->size, stream);
}

EXPORT ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)
{
    return transfer(__func__, count, to && type <= 11 && peer < comm->size, stream);
}
