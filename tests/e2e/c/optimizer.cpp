/* SPDX-License-Identifier: Apache-2.0 */
/* A training in C++, with an optimizer of libtorch's. Marks its steps when it has an argument. */
#include <cstdio>

#include <torch/csrc/autograd/variable.h>
#include <torch/optim/sgd.h>

#include "preload/cprof.h"

int main(int argc, char **)
{
    at::Tensor weight = torch::autograd::make_variable(at::ones({2, 4}), true);
    torch::optim::SGD optimizer({weight}, 0.01);
    for (int i = 0; i < 5; i++) {
        optimizer.zero_grad();
        at::matmul(at::ones({3, 4}), weight.t()).sum().backward();
        optimizer.step();
        if (argc > 1)
            cprof_step();
    }
    puts("done");
}
