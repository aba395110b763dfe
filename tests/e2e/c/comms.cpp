/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers as c10d's NCCL group makes them: record_param_comms describes a transfer. Inside is
 * the range of the transfer with NCCL's call, which is made if a communicator is given. Compiled
 * with the headers of the installed PyTorch. */
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

extern "C" {
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *) __attribute__((weak));
int ncclGroupStart() __attribute__((weak));
int ncclGroupEnd() __attribute__((weak));
}

static void ask(const at::Tensor &in, const at::Tensor &out, void *communicator, void *stream,
                int grouped)
{
    RECORD_USER_SCOPE("nccl:all_reduce");
    if (!communicator)
        return;
    if (grouped)
        ncclGroupStart();
    for (int i = 0; i < (grouped ? grouped : 1); i++)
        if (ncclAllReduce(in.data_ptr(), out.data_ptr(), static_cast<size_t>(in.numel()), 7, 0,
                          communicator, stream) != 0)
            throw std::runtime_error("ncclAllReduce");
    if (grouped)
        ncclGroupEnd();
}

/* Each tensor has n elements. splits: length of the lists of splits. grouped: number of NCCL
 * calls in a group, as c10d makes for several transfers at once (older versions: for each
 * transfer); 0: one call without a group. */
extern "C" void transfer(const char *name, int rank, int size, int start, int stride, int n,
                         const char *group, const char *about, int splits, void *communicator,
                         void *stream, int grouped)
{
    std::vector<at::Tensor> in{at::ones({n})}, out{at::ones({n})};
    std::vector<int64_t> split(static_cast<size_t>(splits), 2);
    RECORD_PARAM_COMMS_DATA(std::make_tuple(int64_t{42}, false),
                            std::make_tuple(std::string(group), std::string(about)), in, out, rank,
                            std::string(name), n, n * size, at::kFloat, split, split, start, stride,
                            size);
    ask(in[0], out[0], communicator, stream, grouped);
}
