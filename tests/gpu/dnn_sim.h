/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the simulated cuDNN and its caller dnn.c: prototypes and descriptors. blas_sim.h has
 * the notes of a call's arguments. */
#pragma once

#include "tests/gpu/blas_sim.h"

/* cudnnTensorDescriptor_t, cudnnFilterDescriptor_t */
struct dnn_sim_tensor {
    int type, dims, size[8];
};

/* cudnnConvolutionDescriptor_t */
struct dnn_sim_conv {
    int math;
};

/* cudnnRNNDescriptor_t, cudnnRNNDataDescriptor_t */
struct dnn_sim_rnn {
    int cell, direction, input_mode, type, math;
    int32_t input, hidden, projected, layers;
};

struct dnn_sim_data {
    int type, batch, width;
    const int *lengths;
};

int cudnnConvolutionForward(void *h, const void *alpha, const struct dnn_sim_tensor *x,
                            const void *xp, const struct dnn_sim_tensor *f, const void *fp,
                            const struct dnn_sim_conv *conv, int algo, void *space, size_t size,
                            const void *beta, const struct dnn_sim_tensor *y, void *yp);
int cudnnConvolutionBiasActivationForward(
    void *h, const void *alpha, const struct dnn_sim_tensor *x, const void *xp,
    const struct dnn_sim_tensor *f, const void *fp, const struct dnn_sim_conv *conv, int algo,
    void *space, size_t size, const void *alpha2, const struct dnn_sim_tensor *z, const void *zp,
    const struct dnn_sim_tensor *bias, const void *bp, void *activation,
    const struct dnn_sim_tensor *y, void *yp);
int cudnnConvolutionBackwardData(void *h, const void *alpha, const struct dnn_sim_tensor *f,
                                 const void *fp, const struct dnn_sim_tensor *dy, const void *dyp,
                                 const struct dnn_sim_conv *conv, int algo, void *space,
                                 size_t size, const void *beta, const struct dnn_sim_tensor *dx,
                                 void *dxp);
int cudnnConvolutionBackwardFilter(void *h, const void *alpha, const struct dnn_sim_tensor *x,
                                   const void *xp, const struct dnn_sim_tensor *dy, const void *dyp,
                                   const struct dnn_sim_conv *conv, int algo, void *space,
                                   size_t size, const void *beta, const struct dnn_sim_tensor *df,
                                   void *dfp);
int cudnnRNNForward(void *h, const struct dnn_sim_rnn *rnn, int mode, const int32_t *lengths,
                    const struct dnn_sim_data *x, const void *xp, const struct dnn_sim_data *y,
                    void *yp, void *hd, const void *hx, void *hy, void *cd, const void *cx,
                    void *cy, size_t weights, const void *wp, size_t size, void *space,
                    size_t reserved, void *reserve);
int cudnnRNNBackwardData_v8(void *h, const struct dnn_sim_rnn *rnn, const int32_t *lengths,
                            const struct dnn_sim_data *y, const void *yp, const void *dy,
                            const struct dnn_sim_data *x, void *dx, void *hd, const void *hx,
                            const void *dhy, void *dhx, void *cd, const void *cx, const void *dcy,
                            void *dcx, size_t weights, const void *wp, size_t size, void *space,
                            size_t reserved, void *reserve);
int cudnnRNNBackwardWeights_v8(void *h, const struct dnn_sim_rnn *rnn, int add,
                               const int32_t *lengths, const struct dnn_sim_data *x, const void *xp,
                               void *hd, const void *hx, const struct dnn_sim_data *y,
                               const void *yp, size_t weights, void *dw, size_t size, void *space,
                               size_t reserved, void *reserve);

int cudnnBackendCreateDescriptor(int type, void **made);
int cudnnBackendDestroyDescriptor(void *d);
int cudnnBackendSetAttribute(void *d, int name, int type, int64_t n, const void *values);
int cudnnBackendGetAttribute(void *d, int name, int type, int64_t room, int64_t *n, void *values);
int cudnnBackendFinalize(void *d);
int cudnnBackendExecute(void *h, void *plan, void *pack);
