/* SPDX-License-Identifier: Apache-2.0 */
/* What calls of cuDNN do that are one operation each: its descriptors are asked by the library's
 * own calls. Application threads, while FLOPs are recorded; no lock, no allocation but by the
 * loader at the first call. Keeps errno. */
#ifndef PRELOAD_FLOPS_CUDNN_H
#define PRELOAD_FLOPS_CUDNN_H

#include "preload/flops/blas.h"

/* The type that a cudnnDataType_t is multiplied in; BLAS_UNKNOWN: none. */
enum blas_type cudnn_type(int data_type);

/* A convolution or one of its two gradients: 2 products for each element of `moved` (the output, or
 * its gradient) and each weight of one of the filter's output channels. x, y: all else that is read
 * or written. Single precision is TF32 where the convolution's math type lets it be. */
void cudnn_convolution(struct blas_work *w, const struct blas_call *call, const void *x,
                       const void *filter, const void *y, const void *moved, const void *conv);

/* A pass through a recurrent layer: a product with each weight for each time step of each sample.
 * x: cudnnRNNDataDescriptor_t. */
void cudnn_recurrent(struct blas_work *w, const struct blas_call *call, const void *rnn,
                     const void *x);

/* ---- the arithmetic ---- */

/* A recurrent network as cudnnGetRNNDescriptor_v8() tells it. */
struct cudnn_rnn {
    int cell, direction, input_mode; /* cudnnRNNMode_t, cudnnDirectionMode_t, cudnnRNNInputMode_t */
    int32_t input, hidden, projected,
        layers; /* projected: of the output, == hidden where there is none */
};

/* Its weights, without biases. */
uint64_t cudnn_weights(const struct cudnn_rnn *rnn);

#endif
