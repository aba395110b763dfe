/* SPDX-License-Identifier: Apache-2.0 */
/* An extension with an operator, an autograd node, and threads that restore their state at their
 * end, after torch's own restore. Compiled with the headers of the installed PyTorch. */
#include <ATen/TensorOperators.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <thread>

namespace
{

struct Twice : torch::autograd::Function<Twice> {
    static at::Tensor forward(torch::autograd::AutogradContext *, const at::Tensor &x)
    {
        return x * 2;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext *,
                                                   torch::autograd::variable_list grads)
    {
        return {grads[0] * 2};
    }
};

at::Tensor twice(const at::Tensor &x)
{
    return Twice::apply(x);
}

struct AtThreadEnd {
    at::ThreadLocalState state;
    ~AtThreadEnd()
    {
        at::ThreadLocalStateGuard guard(state);
    }
};

} // namespace

TORCH_LIBRARY(cprof_extension, library)
{
    library.def("twice(Tensor x) -> Tensor", &twice);
}

extern "C" {

double train(double value)
{
    at::Tensor x = at::full({2}, value);
    x.set_requires_grad(true);
    twice(x).sum().backward();
    return x.grad().sum().item<double>();
}

double thread_with_late_state(double value)
{
    double result = 0;
    std::thread([&] {
        thread_local AtThreadEnd late;
        (void)late;
        result = train(value);
    }).join();
    return result;
}
}
