/* SPDX-License-Identifier: Apache-2.0 */
/* A BLAS that computes nothing. It records its arguments and which copy of it was called. It
 * calls itself through its PLT, as LAPACK inside a BLAS library does. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#ifndef WHICH
#define WHICH 1
#endif

struct blas_note {
    int which, m, n, k, lda, ldb, ldc, order;
    size_t first_length, second_length;
    const void *a, *b, *c;
    double alpha, beta;
} blas_note;

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const void *a, const int *lda, const void *b, const int *ldb,
            const float *beta, void *c, const int *ldc, size_t ta_len, size_t tb_len);
void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const void *a, const int *lda, const void *b, const int *ldb,
            const float *beta, void *c, const int *ldc, size_t ta_len, size_t tb_len)
{
    blas_note = (struct blas_note){WHICH,           *m,     *n,     *k, *lda, *ldb, *ldc,
                                   *ta * 256 + *tb, ta_len, tb_len, a,  b,    c,    (double)*alpha,
                                   (double)*beta};
    errno = 77;
}

void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const void *a,
                 int lda, const void *b, int ldb, double beta, void *c, int ldc);
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const void *a,
                 int lda, const void *b, int ldb, double beta, void *c, int ldc)
{
    blas_note = (struct blas_note){WHICH, m, n, k, lda, ldb,   ldc, order + ta + tb,
                                   0,     0, a, b, c,   alpha, beta};
    errno = 78;
}

/* MKL with 64-bit sizes has this function under the same name. */
#include <stdint.h>
int64_t blas_wide[6];
void cblas_sgemm(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha,
                 const void *a, int64_t lda, const void *b, int64_t ldb, float beta, void *c,
                 int64_t ldc);
void cblas_sgemm(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha,
                 const void *a, int64_t lda, const void *b, int64_t ldb, float beta, void *c,
                 int64_t ldc)
{
    (void)order, (void)ta, (void)tb, (void)alpha, (void)a, (void)b, (void)beta, (void)c;
    int64_t sizes[] = {m, n, k, lda, ldb, ldc};
    memcpy(blas_wide, sizes, sizeof sizes);
}

/* Calls sgemm_ from inside this library. Returns which copy of the library answered. */
int call_inside(int m, int n, int k);
int call_inside(int m, int n, int k)
{
    float one = 1;
    memset(&blas_note, 0, sizeof blas_note);
    sgemm_("N", "T", &m, &n, &k, &one, NULL, &m, NULL, &k, &one, NULL, &m, 1, 1);
    return blas_note.which;
}
