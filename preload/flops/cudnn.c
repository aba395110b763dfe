/* SPDX-License-Identifier: Apache-2.0 */
/* Counts FLOPs of cuDNN calls that are one operation. */
#include "preload/flops/cudnn.h"

#include <errno.h>

#include "preload/core/core.h"

#define DIMS      8    /* CUDNN_DIM_MAX */
#define SEQUENCES 1024 /* most sequences of a packed batch */

/* The library's functions that read descriptors (cudnn_graph.h, cudnn_cnn.h, cudnn_adv.h). */
struct getters {
    int (*tensor)(const void *, int, int *type, int *dims, int *size, int *stride);
    int (*filter)(const void *, int, int *type, int *format, int *dims, int *size);
    int (*math)(const void *, int *type);
    int (*rnn)(const void *, int *algo, int *cell, int *bias, int *direction, int *input_mode,
               int *type, int *precision, int *math, int32_t *input, int32_t *hidden,
               int32_t *projected, int32_t *layers, void **dropout, uint32_t *flags);
    int (*data)(const void *, int *type, int *layout, int *longest, int *batch, int *width, int,
                int *lengths, void *fill);
};

struct sizes {
    int type; /* cudnnDataType_t */
    int dims;
    int size[DIMS];
};

/* Getters of the library of each call. Constant once `ready`; the thread that sets `taken` fills
 * them. */
static struct {
    struct getters getters;
    _Atomic bool taken; /* the first thread sets it */
    _Atomic bool ready; /* that thread sets it (release), any reads (acquire) */
} libraries[BLAS_COUNT];

static struct getters library_of(const struct blas_call *call)
{
    struct getters a;
    if (atomic_load_explicit(&libraries[call->id].ready, memory_order_acquire))
        return libraries[call->id].getters;
    *(void **)&a.tensor = blas_sibling(call->real, "cudnnGetTensorNdDescriptor");
    *(void **)&a.filter = blas_sibling(call->real, "cudnnGetFilterNdDescriptor");
    *(void **)&a.math = blas_sibling(call->real, "cudnnGetConvolutionMathType");
    *(void **)&a.rnn = blas_sibling(call->real, "cudnnGetRNNDescriptor_v8");
    *(void **)&a.data = blas_sibling(call->real, "cudnnGetRNNDataDescriptor");
    if (!atomic_exchange(&libraries[call->id].taken, true)) {
        libraries[call->id].getters = a;
        atomic_store_explicit(&libraries[call->id].ready, true, memory_order_release);
    }
    return a;
}

enum blas_type cudnn_type(int data_type)
{
    switch (data_type) {
    case CUDNN_DATA_FLOAT:
        return BLAS_FLOAT;
    case CUDNN_DATA_DOUBLE:
        return BLAS_DOUBLE;
    case CUDNN_DATA_HALF:
        return BLAS_HALF;
    case CUDNN_DATA_BFLOAT16:
        return BLAS_BFLOAT16;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
        return BLAS_INT8;
    case CUDNN_DATA_FP8_E4M3:
        return BLAS_FLOAT8_E4M3;
    case CUDNN_DATA_FP8_E5M2:
        return BLAS_FLOAT8_E5M2;
    case CUDNN_DATA_FP4_E2M1:
        return BLAS_FLOAT4;
    default:
        return BLAS_UNKNOWN;
    }
}

/* ---- convolutions ---- */

static bool tensor_of(const struct getters *a, const void *desc, struct sizes *s)
{
    int stride[DIMS];
    return a->tensor && desc && a->tensor(desc, DIMS, &s->type, &s->dims, s->size, stride) == 0 &&
           s->dims > 0 && s->dims <= DIMS;
}

static bool filter_of(const struct getters *a, const void *desc, struct sizes *s)
{
    int format;
    return a->filter && desc && a->filter(desc, DIMS, &s->type, &format, &s->dims, s->size) == 0 &&
           s->dims > 0 && s->dims <= DIMS && s->size[0] > 0;
}

static int64_t volume(const struct sizes *s)
{
    double product = 1;
    int64_t n = 1;
    for (int i = 0; i < s->dims; i++) {
        product *= s->size[i];
        n = product >= 0 && product < 1e18 ? n * s->size[i] : -1;
    }
    return product < 1e18 ? n : -1; /* -1 makes the work unknown */
}

static void convolve(struct blas_work *w, const struct getters *a, const void *x,
                     const void *filter, const void *y, const void *moved, const void *conv)
{
    struct sizes xs, ys, fs, ms;
    int math = CUDNN_FMA_MATH;
    if (!tensor_of(a, x, &xs) || !tensor_of(a, y, &ys) || !tensor_of(a, moved, &ms) ||
        !filter_of(a, filter, &fs))
        return;
    enum blas_type type = cudnn_type(ms.type);
    if (type == BLAS_FLOAT && a->math && conv && a->math(conv, &math) == 0 &&
        math != CUDNN_FMA_MATH)
        type = BLAS_TF32;
    int64_t weights = volume(&fs);
    blas_gemm(w, volume(&ms), 1, weights < 0 ? -1 : weights / fs.size[0], 1, type);
    w->bytes = 0;
    if (w->type != BLAS_UNKNOWN)
        blas_move(w, volume(&xs) + volume(&ys) + weights, type);
}

void cudnn_convolution(struct blas_work *w, const struct blas_call *call, const void *x,
                       const void *filter, const void *y, const void *moved, const void *conv)
{
    int saved = errno;
    bool entered = guard_enter();
    struct getters getters = library_of(call);
    convolve(w, &getters, x, filter, y, moved, conv);
    if (entered)
        guard_leave();
    errno = saved;
}

/* ---- recurrent layers ---- */

uint64_t cudnn_weights(const struct cudnn_rnn *rnn)
{
    uint64_t gates = rnn->cell == CUDNN_LSTM ? 4 : rnn->cell == CUDNN_GRU ? 3 : 1;
    uint64_t directions = rnn->direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
    uint64_t hidden = (uint64_t)rnn->hidden, out = (uint64_t)rnn->projected, weights = 0;
    for (int32_t layer = 0; layer < rnn->layers; layer++) {
        uint64_t in = layer ? out * directions : (uint64_t)rnn->input;
        if (layer == 0 && rnn->input_mode == CUDNN_SKIP_INPUT)
            in = 0;
        weights += gates * hidden * (in + out);
        weights += out != hidden ? out * hidden : 0;
    }
    return weights * directions;
}

/* Time steps of all samples; -1: unknown. */
static int64_t steps_of(const struct getters *a, const void *data)
{
    int type, layout, longest, batch, width, lengths[SEQUENCES];
    uint64_t fill; /* one element of the type */
    int64_t steps = 0;
    if (!a->data || !data ||
        a->data(data, &type, &layout, &longest, &batch, &width, 0, NULL, &fill) != 0 ||
        batch > SEQUENCES ||
        a->data(data, &type, &layout, &longest, &batch, &width, batch, lengths, &fill) != 0)
        return -1;
    for (int i = 0; i < batch; i++)
        steps += lengths[i];
    return steps;
}

static void recur(struct blas_work *w, const struct getters *a, const void *desc, const void *x)
{
    struct cudnn_rnn rnn;
    int algo, bias, type, precision, math;
    void *dropout;
    uint32_t flags;
    int64_t steps = steps_of(a, x);
    if (steps < 0 || !a->rnn || !desc ||
        a->rnn(desc, &algo, &rnn.cell, &bias, &rnn.direction, &rnn.input_mode, &type, &precision,
               &math, &rnn.input, &rnn.hidden, &rnn.projected, &rnn.layers, &dropout, &flags) != 0)
        return;
    enum blas_type known = cudnn_type(type);
    if (known == BLAS_FLOAT && math != CUDNN_FMA_MATH)
        known = BLAS_TF32;
    uint64_t weights = cudnn_weights(&rnn);
    blas_gemm(w, steps, 1, (int64_t)weights, 1, known);
    w->bytes = 0;
    if (w->type != BLAS_UNKNOWN)
        blas_move(w, (int64_t)weights + steps * (rnn.input + rnn.projected), known);
}

void cudnn_recurrent(struct blas_work *w, const struct blas_call *call, const void *rnn,
                     const void *x)
{
    int saved = errno;
    bool entered = guard_enter();
    struct getters getters = library_of(call);
    recur(w, &getters, rnn, x);
    if (entered)
        guard_leave();
    errno = saved;
}
