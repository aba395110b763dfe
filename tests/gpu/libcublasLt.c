/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt for the simulated GPU. cublasLtMatmul launches one kernel of alpha nanoseconds, and a
 * second one if beta is not 0, like a product that is split along k. It notes its arguments. The
 * attribute functions of the real library read the descriptors, except BLAS_SIM_UNREADABLE
 * layouts. */
#include <stdlib.h>

#include "tests/gpu/blas_sim.h"

uint64_t blas_sim_note[BLAS_SIM_NOTES];

int cublasLtMatrixLayoutGetAttribute(const struct blas_sim_layout *l, int attribute, void *value,
                                     size_t size, size_t *written)
{
    int32_t type = l->type, batch = l->batch;
    const void *from = attribute == 0   ? (const void *)&type
                       : attribute == 2 ? (const void *)&l->rows
                       : attribute == 3 ? (const void *)&l->columns
                       : attribute == 5 ? (const void *)&batch
                                        : NULL;
    size_t bytes = attribute == 2 || attribute == 3 ? 8 : 4;
    if (!from || size < bytes || l->type == BLAS_SIM_UNREADABLE)
        return 7;
    memcpy(value, from, bytes);
    if (written)
        *written = bytes;
    return 0;
}

int cublasLtMatmulDescGetAttribute(const struct blas_sim_desc *d, int attribute, void *value,
                                   size_t size, size_t *written)
{
    if ((attribute != 0 && attribute != 3) || size < 4)
        return 7;
    memcpy(value, attribute == 0 ? &d->compute : &d->transa, 4);
    if (written)
        *written = 4;
    return 0;
}

int cublasLtCreate(void **handle)
{
    static char one[8];
    *handle = one;
    return 0;
}

int cublasLtDestroy(void *handle)
{
    return handle ? 0 : 1;
}

int cublasLtMatmulDescCreate(struct blas_sim_desc **desc, int compute, int scale)
{
    (void)scale;
    *desc = calloc(1, sizeof **desc);
    (*desc)->compute = compute;
    return 0;
}

int cublasLtMatmulDescSetAttribute(struct blas_sim_desc *desc, int attribute, const int32_t *value,
                                   size_t size)
{
    if (attribute != 3 || size != 4)
        return 7;
    desc->transa = *value;
    return 0;
}

int cublasLtMatmulDescDestroy(struct blas_sim_desc *desc)
{
    free(desc);
    return 0;
}

int cublasLtMatrixLayoutCreate(struct blas_sim_layout **layout, int type, uint64_t rows,
                               uint64_t columns, int64_t ld)
{
    (void)ld;
    *layout = calloc(1, sizeof **layout);
    **layout = (struct blas_sim_layout){type, 1, rows, columns};
    return 0;
}

int cublasLtMatrixLayoutDestroy(struct blas_sim_layout *layout)
{
    free(layout);
    return 0;
}

int cublasLtMatmul(void *h, const struct blas_sim_desc *desc, const float *alpha, const void *a,
                   const struct blas_sim_layout *al, const void *b,
                   const struct blas_sim_layout *bl, const float *beta, const void *c,
                   const struct blas_sim_layout *cl, void *d, const struct blas_sim_layout *dl,
                   const void *algo, void *space, size_t size, void *stream)
{
    NOTE(h, desc, alpha, a, al, b, bl, beta, c, cl, d, dl, algo, space, size, stream);
    cudaError_t error = gpu_named(stream, GPU_GEMM, (uint64_t)*alpha);
    if (!error && *beta != 0)
        error = gpu_named(stream, GPU_ELEMENTWISE, (uint64_t)*alpha);
    return error ? 13 : 0;
}
