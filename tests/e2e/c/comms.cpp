/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers asked for as c10d's group of NCCL asks for them: record_param_comms says what, and inside of it stands the range of the transfer
 * with NCCL's call, which is made where a communicator is given. Compiled against the installed PyTorch's headers. */
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

extern "C" int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *)
    __attribute__((weak));

static void ask(const at::Tensor &in, const at::Tensor &out, void *communicator, void *stream)
{
    RECORD_USER_SCOPE("nccl:all_reduce");
    if (communicator && ncclAllReduce(in.data_ptr(), out.data_ptr(), static_cast<size_t>(in.numel()),
                                      7, 0, communicator, stream) != 0)
        throw std::runtime_error("ncclAllReduce");
}

/* n elements each; splits: how many entries the lists of splits have. */
extern "C" void transfer(const char *name, int rank, int size, int start, int stride, int n,
                         const char *group, const char *about, int splits, void *communicator,
                         void *stream)
{
    std::vector<at::Tensor> in{at::ones({n})}, out{at::ones({n})};
    std::vector<int64_t> split(static_cast<size_t>(splits), 2);
    RECORD_PARAM_COMMS_DATA(std::make_tuple(int64_t{42}, false),
                            std::make_tuple(std::string(group), std::string(about)), in, out, rank,
                            std::string(name), n, n * size, at::kFloat, split, split, start, stride,
                            size);
    ask(in[0], out[0], communicator, stream);
}
