/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN for the simulated GPU. Each call launches one kernel and notes its arguments; a NULL handle
 * fails. The query functions of the real library read the descriptors. Backend descriptors have
 * only a type and a state, because the program never reads them back. */
#include <stdbool.h>
#include <stdlib.h>

#include "tests/gpu/dnn_sim.h"

#define KERNEL_NS 3000

enum { ENGINE = 2, CONFIG, HEURISTICS, LIVING = 0x11feed };
enum { RESULTS = 202, ITS_ENGINE = 300, ENGINE_INDEX = 1301, NOTES = 1303 };

uint64_t blas_sim_note[BLAS_SIM_NOTES];

struct descriptor {
    int state, type; /* LIVING */
    int64_t engine;  /* number of the engine; in an engine and its configuration */
    bool whole;
};

static int run(void *h)
{
    return !h ? 1 : gpu_named(NULL, GPU_GEMM, KERNEL_NS) ? 8 : 0;
}

/* ---- queries of descriptors ---- */

int cudnnGetTensorNdDescriptor(const struct dnn_sim_tensor *t, int room, int *type, int *dims,
                               int *size, int *stride)
{
    *type = t->type;
    *dims = t->dims;
    for (int i = 0; i < t->dims && i < room; i++) {
        size[i] = t->size[i];
        stride[i] = 1;
    }
    return 0;
}

int cudnnGetFilterNdDescriptor(const struct dnn_sim_tensor *t, int room, int *type, int *format,
                               int *dims, int *size)
{
    int stride[8];
    *format = 0;
    return cudnnGetTensorNdDescriptor(t, room, type, dims, size, stride);
}

int cudnnGetConvolutionMathType(const struct dnn_sim_conv *c, int *math)
{
    *math = c->math;
    return 0;
}

int cudnnGetRNNDescriptor_v8(const struct dnn_sim_rnn *r, int *algo, int *cell, int *bias,
                             int *direction, int *input_mode, int *type, int *precision, int *math,
                             int32_t *input, int32_t *hidden, int32_t *projected, int32_t *layers,
                             void **dropout, uint32_t *flags)
{
    *algo = *bias = 0;
    *cell = r->cell;
    *direction = r->direction;
    *input_mode = r->input_mode;
    *type = *precision = r->type;
    *math = r->math;
    *input = r->input;
    *hidden = r->hidden;
    *projected = r->projected;
    *layers = r->layers;
    *dropout = NULL;
    *flags = 0;
    return 0;
}

int cudnnGetRNNDataDescriptor(const struct dnn_sim_data *d, int *type, int *layout, int *longest,
                              int *batch, int *width, int room, int *lengths, void *fill)
{
    *type = d->type;
    *layout = *longest = 0;
    *batch = d->batch;
    *width = d->width;
    memset(fill, 0, 4);
    for (int i = 0; i < d->batch && i < room; i++)
        lengths[i] = d->lengths[i];
    return 0;
}

/* ---- operations in one call ---- */

int cudnnConvolutionForward(void *h, const void *alpha, const struct dnn_sim_tensor *x,
                            const void *xp, const struct dnn_sim_tensor *f, const void *fp,
                            const struct dnn_sim_conv *conv, int algo, void *space, size_t size,
                            const void *beta, const struct dnn_sim_tensor *y, void *yp)
{
    NOTE(h, alpha, x, xp, f, fp, conv, algo, space, size, beta, y, yp);
    return run(h);
}

int cudnnConvolutionBiasActivationForward(
    void *h, const void *alpha, const struct dnn_sim_tensor *x, const void *xp,
    const struct dnn_sim_tensor *f, const void *fp, const struct dnn_sim_conv *conv, int algo,
    void *space, size_t size, const void *alpha2, const struct dnn_sim_tensor *z, const void *zp,
    const struct dnn_sim_tensor *bias, const void *bp, void *activation,
    const struct dnn_sim_tensor *y, void *yp)
{
    NOTE(h, alpha, x, xp, f, fp, conv, algo, space, size, alpha2, z, zp, bias, bp, activation, y,
         yp);
    return run(h);
}

int cudnnConvolutionBackwardData(void *h, const void *alpha, const struct dnn_sim_tensor *f,
                                 const void *fp, const struct dnn_sim_tensor *dy, const void *dyp,
                                 const struct dnn_sim_conv *conv, int algo, void *space,
                                 size_t size, const void *beta, const struct dnn_sim_tensor *dx,
                                 void *dxp)
{
    NOTE(h, alpha, f, fp, dy, dyp, conv, algo, space, size, beta, dx, dxp);
    return run(h);
}

int cudnnConvolutionBackwardFilter(void *h, const void *alpha, const struct dnn_sim_tensor *x,
                                   const void *xp, const struct dnn_sim_tensor *dy, const void *dyp,
                                   const struct dnn_sim_conv *conv, int algo, void *space,
                                   size_t size, const void *beta, const struct dnn_sim_tensor *df,
                                   void *dfp)
{
    NOTE(h, alpha, x, xp, dy, dyp, conv, algo, space, size, beta, df, dfp);
    return run(h);
}

int cudnnRNNForward(void *h, const struct dnn_sim_rnn *rnn, int mode, const int32_t *lengths,
                    const struct dnn_sim_data *x, const void *xp, const struct dnn_sim_data *y,
                    void *yp, void *hd, const void *hx, void *hy, void *cd, const void *cx,
                    void *cy, size_t weights, const void *wp, size_t size, void *space,
                    size_t reserved, void *reserve)
{
    NOTE(h, rnn, mode, lengths, x, xp, y, yp, hd, hx, hy, cd, cx, cy, weights, wp, size, space,
         reserved, reserve);
    return run(h);
}

int cudnnRNNBackwardData_v8(void *h, const struct dnn_sim_rnn *rnn, const int32_t *lengths,
                            const struct dnn_sim_data *y, const void *yp, const void *dy,
                            const struct dnn_sim_data *x, void *dx, void *hd, const void *hx,
                            const void *dhy, void *dhx, void *cd, const void *cx, const void *dcy,
                            void *dcx, size_t weights, const void *wp, size_t size, void *space,
                            size_t reserved, void *reserve)
{
    NOTE(h, rnn, lengths, y, yp, dy, x, dx, hd, hx, dhy, dhx, cd, cx, dcy, dcx, weights, wp, size,
         space, reserved, reserve);
    return run(h);
}

int cudnnRNNBackwardWeights_v8(void *h, const struct dnn_sim_rnn *rnn, int add,
                               const int32_t *lengths, const struct dnn_sim_data *x, const void *xp,
                               void *hd, const void *hx, const struct dnn_sim_data *y,
                               const void *yp, size_t weights, void *dw, size_t size, void *space,
                               size_t reserved, void *reserve)
{
    NOTE(h, rnn, add, lengths, x, xp, hd, hx, y, yp, weights, dw, size, space, reserved, reserve);
    return run(h);
}

/* ---- the backend ---- */

static bool is_alive(const struct descriptor *d)
{
    return d && d->state == LIVING;
}

int cudnnBackendCreateDescriptor(int type, void **made)
{
    struct descriptor *d = calloc(1, sizeof *d);
    *d = (struct descriptor){.state = LIVING, .type = type};
    *made = d;
    return 0;
}

int cudnnBackendDestroyDescriptor(void *d)
{
    if (!is_alive(d))
        return 3;
    memset(d, 0, sizeof(struct descriptor));
    free(d);
    return 0;
}

int cudnnBackendSetAttribute(void *d, int name, int type, int64_t n, const void *values)
{
    uint64_t first = 0;
    memcpy(&first, values, type == 3 || type == 15 ? 8 : type == 2 ? 1 : 4);
    blas_sim_note[0] = U(d);
    blas_sim_note[1] = U(name);
    blas_sim_note[2] = U(n);
    blas_sim_note[3] = first;
    struct descriptor *to = d, *from = (struct descriptor *)first;
    if (!is_alive(to) || to->whole)
        return 3;
    if (to->type == ENGINE && name == ENGINE_INDEX)
        to->engine = (int64_t)first;
    if (to->type == CONFIG && name == ITS_ENGINE)
        to->engine = from->engine;
    return 0;
}

/* Numbers of cudnnBackendNumericalNote_t: engine 1 uses tensor cores, engine 2 also converts its
 * inputs. */
static int notes_of(const struct descriptor *engine, int64_t *n, int *notes)
{
    static const int told[3][2] = {{9}, {0, 9}, {1, 0}};
    *n = engine->engine ? 2 : 1;
    memcpy(notes, told[engine->engine], sizeof told[0]);
    return 0;
}

int cudnnBackendGetAttribute(void *d, int name, int type, int64_t room, int64_t *n, void *values)
{
    struct descriptor *of = d;
    void **results = values;
    if (is_alive(of) && of->type == ENGINE && name == NOTES && type == 11 && room > 1)
        return notes_of(of, n, values);
    if (is_alive(of) && of->type == CONFIG && of->whole && name == ITS_ENGINE && type == 15) {
        ((struct descriptor *)results[0])->engine = of->engine;
        *n = 1;
        return is_alive(results[0]) ? 0 : 3;
    }
    if (!is_alive(of) || of->type != HEURISTICS || name != RESULTS || type != 15)
        return 3;
    for (int64_t i = 0; i < room && i < 1; i++)
        ((struct descriptor *)results[i])->whole = true;
    *n = 1;
    return 0;
}

int cudnnBackendFinalize(void *d)
{
    if (!is_alive(d))
        return 3;
    ((struct descriptor *)d)->whole = true;
    return 0;
}

int cudnnBackendExecute(void *h, void *plan, void *pack)
{
    blas_sim_note[0] = U(h);
    blas_sim_note[1] = U(plan);
    blas_sim_note[2] = U(pack);
    return is_alive(plan) && is_alive(pack) ? run(h) : 3;
}
