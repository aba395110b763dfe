/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS for the simulated GPU. Each call launches one kernel of alpha nanoseconds and notes its
 * arguments; cublasGemmEx calls cublasLtMatmul, as in the real library. A NULL handle fails. The
 * first byte of a handle is its math mode. */
#include "tests/gpu/blas_sim.h"

static int run(void *h, double ns)
{
    if (!h)
        return 1;
    return gpu_named(NULL, GPU_GEMM, (uint64_t)ns) ? 13 : 0;
}

int cublasCreate_v2(void **handle)
{
    static char one[8];
    *handle = one;
    return 0;
}

int cublasDestroy_v2(void *handle)
{
    return handle ? 0 : 1;
}

int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const void *a,
                   int lda, const void *b, int ldb, const float *beta, void *c, int ldc)
{
    NOTE(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return run(h, (double)*alpha);
}

int cublasSgemm_v2_64(void *h, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *alpha,
                      const void *a, int64_t lda, const void *b, int64_t ldb, const float *beta,
                      void *c, int64_t ldc)
{
    NOTE(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return run(h, (double)*alpha);
}

int cublasGetMathMode(const char *h, int *mode)
{
    *mode = h[0];
    return 0;
}

int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const void *a,
                 int at, int lda, const void *b, int bt, int ldb, const float *beta, void *c,
                 int ct, int ldc, int compute, int algo)
{
    struct blas_sim_layout al = {at, 1, (uint64_t)(ta ? k : m), (uint64_t)(ta ? m : k)};
    struct blas_sim_layout bl = {bt, 1, (uint64_t)k, (uint64_t)n},
                           dl = {ct, 1, (uint64_t)m, (uint64_t)n};
    struct blas_sim_desc desc = {compute, ta};
    int status =
        cublasLtMatmul(h, &desc, alpha, a, &al, b, &bl, beta, c, &dl, c, &dl, NULL, NULL, 0, NULL);
    NOTE(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute, algo);
    return status;
}

int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const float *alpha,
                               const void *a, int at, int lda, long long sa, const void *b, int bt,
                               int ldb, long long sb, const float *beta, void *c, int ct, int ldc,
                               long long sc, int batch, int compute, int algo)
{
    NOTE(h, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb, beta, c, ct, ldc, sc, batch,
         compute, algo);
    return run(h, (double)*alpha);
}

int cublasGemmGroupedBatchedEx(void *h, const int *ta, const int *tb, const int *m, const int *n,
                               const int *k, const float *alpha, const void *a, int at,
                               const int *lda, const void *b, int bt, const int *ldb,
                               const float *beta, const void *c, int ct, const int *ldc, int groups,
                               const int *size, int compute)
{
    NOTE(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, groups, size,
         compute);
    return run(h, (double)*alpha);
}

int cublasSsyrk_v2(void *h, int uplo, int ta, int n, int k, const float *alpha, const void *a,
                   int lda, const float *beta, void *c, int ldc)
{
    NOTE(h, uplo, ta, n, k, alpha, a, lda, beta, c, ldc);
    return run(h, (double)*alpha);
}

int cublasDtrsmBatched(void *h, int side, int uplo, int ta, int diag, int m, int n,
                       const double *alpha, const void *a, int lda, const void *b, int ldb,
                       int batch)
{
    NOTE(h, side, uplo, ta, diag, m, n, alpha, a, lda, b, ldb, batch);
    return run(h, *alpha);
}
