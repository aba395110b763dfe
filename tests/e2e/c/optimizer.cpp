/* SPDX-License-Identifier: Apache-2.0 */
/* A training program in C++. Marks its steps when it has an argument. OPTIMIZER: uses an
 * optimizer of libtorch, whose headers take three times as long to compile. */
#include <cstdio>

#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#ifdef OPTIMIZER
#include <torch/optim/sgd.h>
#endif

#include "preload/cprof.h"

int main(int argc, char **)
{
    at::Tensor weight = at::ones({2, 4}).set_requires_grad(true);
#ifdef OPTIMIZER
    torch::optim::SGD optimizer({weight}, 0.01);
#endif
    for (int i = 0; i < 5; i++) {
        at::matmul(at::ones({3, 4}), weight.t()).sum().backward();
#ifdef OPTIMIZER
        optimizer.step();
#endif
        if (argc > 1)
            cprof_step();
    }
    puts("done");
}
