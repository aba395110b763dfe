/* SPDX-License-Identifier: Apache-2.0 */
/* Work of cuDNN calls that are one operation. The sizes in descriptors are read through the
 * library's own functions. Application threads, while FLOPs are recorded. No lock; only the loader
 * allocates, at the first call. Keeps errno. */
#pragma once

#include "preload/flops/blas.h"

/* The type in which a cudnnDataType_t is multiplied; BLAS_UNKNOWN: none. */
enum blas_type cudnn_type(int data_type);

/* A convolution or one of its two gradients: 2 operations for each element of `moved` (the output,
 * or its gradient) and each weight of one output channel. x, y: other tensors read or written.
 * Single precision counts as TF32 if the convolution's math type allows it. */
void cudnn_convolution(struct blas_work *w, const struct blas_call *call, const void *x,
                       const void *filter, const void *y, const void *moved, const void *conv);

/* A pass through a recurrent layer: one product with each weight per time step and sample. x:
 * cudnnRNNDataDescriptor_t. */
void cudnn_recurrent(struct blas_work *w, const struct blas_call *call, const void *rnn,
                     const void *x);

/* ---- the arithmetic ---- */

/* A recurrent network, from cudnnGetRNNDescriptor_v8(). */
struct cudnn_rnn {
    int cell, direction, input_mode; /* cudnnRNNMode_t, cudnnDirectionMode_t, cudnnRNNInputMode_t */
    int32_t input, hidden, projected,
        layers; /* projected: size of the output; hidden if not projected */
};

/* Number of weights, without biases. */
uint64_t cudnn_weights(const struct cudnn_rnn *rnn);
