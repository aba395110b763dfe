/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the simulated cuBLAS and cuBLASLt and their caller gemm.c: descriptors, and the
 * arguments of the last call, noted as 64 bits each. */
#pragma once

#include <string.h>

#include "tests/gpu/kernels.h"

#define BLAS_SIM_UNREADABLE                                                                        \
    1000 /* a layout type whose attributes cannot be read, as in other versions */

struct blas_sim_layout {
    int32_t type, batch; /* cudaDataType */
    uint64_t rows, columns;
};

struct blas_sim_desc {
    int32_t compute, transa; /* cublasComputeType_t, cublasOperation_t */
};

#define BLAS_SIM_NOTES 24
extern uint64_t blas_sim_note[BLAS_SIM_NOTES];

/* Notes up to BLAS_SIM_NOTES arguments: whole numbers and pointers. */
#define NOTE(...)                                                                                  \
    do {                                                                                           \
        uint64_t note_[] = {NOTE_PICK(__VA_ARGS__)};                                               \
        memset(blas_sim_note, 0, sizeof blas_sim_note);                                            \
        memcpy(blas_sim_note, note_, sizeof note_);                                                \
    } while (0)
#define U(x) (uint64_t)(x)
#define NOTE_PICK(...)                                                                             \
    NOTE_PICK_(__VA_ARGS__, NOTE_23, NOTE_22, NOTE_21, NOTE_20, NOTE_19, NOTE_18, NOTE_17,         \
               NOTE_16, NOTE_15, NOTE_14, NOTE_13, NOTE_12, NOTE_11)                               \
    (__VA_ARGS__)
#define NOTE_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, pick, ...) \
    pick
#define NOTE_11(a, b, c, d, e, f, g, h, i, j, k)                                                   \
    U(a), U(b), U(c), U(d), U(e), U(f), U(g), U(h), U(i), U(j), U(k)
#define NOTE_12(a, ...) U(a), NOTE_11(__VA_ARGS__)
#define NOTE_13(a, ...) U(a), NOTE_12(__VA_ARGS__)
#define NOTE_14(a, ...) U(a), NOTE_13(__VA_ARGS__)
#define NOTE_15(a, ...) U(a), NOTE_14(__VA_ARGS__)
#define NOTE_16(a, ...) U(a), NOTE_15(__VA_ARGS__)
#define NOTE_17(a, ...) U(a), NOTE_16(__VA_ARGS__)
#define NOTE_18(a, ...) U(a), NOTE_17(__VA_ARGS__)
#define NOTE_19(a, ...) U(a), NOTE_18(__VA_ARGS__)
#define NOTE_20(a, ...) U(a), NOTE_19(__VA_ARGS__)
#define NOTE_21(a, ...) U(a), NOTE_20(__VA_ARGS__)
#define NOTE_22(a, ...) U(a), NOTE_21(__VA_ARGS__)
#define NOTE_23(a, ...) U(a), NOTE_22(__VA_ARGS__)

/* The functions, with the types of blas.def. */
int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const void *a,
                   int lda, const void *b, int ldb, const float *beta, void *c, int ldc);
int cublasSgemm_v2_64(void *h, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *alpha,
                      const void *a, int64_t lda, const void *b, int64_t ldb, const float *beta,
                      void *c, int64_t ldc);
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const void *a,
                 int at, int lda, const void *b, int bt, int ldb, const float *beta, void *c,
                 int ct, int ldc, int compute, int algo);
int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const float *alpha,
                               const void *a, int at, int lda, long long sa, const void *b, int bt,
                               int ldb, long long sb, const float *beta, void *c, int ct, int ldc,
                               long long sc, int batch, int compute, int algo);
int cublasGemmGroupedBatchedEx(void *h, const int *ta, const int *tb, const int *m, const int *n,
                               const int *k, const float *alpha, const void *a, int at,
                               const int *lda, const void *b, int bt, const int *ldb,
                               const float *beta, const void *c, int ct, const int *ldc, int groups,
                               const int *size, int compute);
int cublasSsyrk_v2(void *h, int uplo, int ta, int n, int k, const float *alpha, const void *a,
                   int lda, const float *beta, void *c, int ldc);
int cublasDtrsmBatched(void *h, int side, int uplo, int ta, int diag, int m, int n,
                       const double *alpha, const void *a, int lda, const void *b, int ldb,
                       int batch);
int cublasLtMatmul(void *h, const struct blas_sim_desc *desc, const float *alpha, const void *a,
                   const struct blas_sim_layout *al, const void *b,
                   const struct blas_sim_layout *bl, const float *beta, const void *c,
                   const struct blas_sim_layout *cl, void *d, const struct blas_sim_layout *dl,
                   const void *algo, void *space, size_t size, void *stream);

/* For the program: P() is a noted pointer. GOT() expects that the last call got these arguments and
 * left errno at 55. */
#define P(x) (uint64_t)(uintptr_t)(x)
#define GOT(...)                                                                                   \
    do {                                                                                           \
        uint64_t wanted_[] = {__VA_ARGS__};                                                        \
        EXPECT(memcmp(blas_sim_note, wanted_, sizeof wanted_) == 0);                               \
        EXPECT(errno == 55);                                                                       \
    } while (0)
