/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of known size by cuBLAS and cuBLASLt, each --times, then --peak products of
 * --size alone, timed by events. Prints for each function its name, the operations of a call and
 * the number of calls; and the time of a large product. Needs no header of cuBLAS: prototypes and
 * numbers are those of cublas_v2.h and cublasLt.h of 11.8 to 13.0, with handles as void *. The
 * simulated libraries take alpha as nanoseconds. */
#include "preload/cprof.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/program.h"

enum { OP_N, OP_T, R_32F = 0, R_16BF = 14, COMPUTE_32F = 68, ALGO_DEFAULT = -1, DESC_TRANSA = 3 };

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const void *a,
                   int lda, const void *b, int ldb, const float *beta, void *c, int ldc);
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                 int at, int lda, const void *b, int bt, int ldb, const void *beta, void *c, int ct,
                 int ldc, int compute, int algo);
int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha,
                               const void *a, int at, int lda, long long sa, const void *b, int bt,
                               int ldb, long long sb, const void *beta, void *c, int ct, int ldc,
                               long long sc, int batch, int compute, int algo);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
int cublasLtMatmulDescCreate(void **desc, int compute, int scale);
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t size);
int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t ld);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatmul(void *h, void *desc, const void *alpha, const void *a, void *al, const void *b,
                   void *bl, const void *beta, const void *c, void *cl, void *d, void *dl,
                   const void *algo, void *space, size_t size, void *stream);

static void *blas, *lt;
static void *a, *b, *c;
static float alpha = 2000, beta;
static int written;

static void note(const char *name, double m, double n, double k, double batch, long calls)
{
    printf("%s{\"name\": \"%s\", \"flops\": %.0f, \"calls\": %ld}", written++ ? ", " : "", name,
           2 * m * n * k * batch, calls);
}

/* No two sizes are equal, and all suit the matrix units. */
static void multiply_each(long times)
{
    void *desc, *al, *bl, *dl;
    int transposed = OP_T;
    for (long i = 0; i < times; i++) {
        CHECK(
            cublasSgemm_v2(blas, OP_N, OP_T, 512, 384, 256, &alpha, a, 512, b, 384, &beta, c, 512));
        CHECK(cublasGemmEx(blas, OP_T, OP_N, 640, 320, 192, &alpha, a, R_16BF, 192, b, R_16BF, 192,
                           &beta, c, R_16BF, 640, COMPUTE_32F, ALGO_DEFAULT));
        CHECK(cublasGemmStridedBatchedEx(blas, OP_N, OP_N, 128, 96, 64, &alpha, a, R_16BF, 128,
                                         128 * 64, b, R_16BF, 64, 64 * 96, &beta, c, R_16BF, 128,
                                         128 * 96, 12, COMPUTE_32F, ALGO_DEFAULT));
    }
    note("cublasSgemm_v2", 512, 384, 256, 1, times);
    note("cublasGemmEx", 640, 320, 192, 1, times);
    note("cublasGemmStridedBatchedEx", 128, 96, 64, 12, times);
    CHECK(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
    CHECK(cublasLtMatmulDescSetAttribute(desc, DESC_TRANSA, &transposed, sizeof transposed));
    CHECK(cublasLtMatrixLayoutCreate(&al, R_16BF, 448, 576, 448)); /* k x m, transposed */
    CHECK(cublasLtMatrixLayoutCreate(&bl, R_16BF, 448, 704, 448));
    CHECK(cublasLtMatrixLayoutCreate(&dl, R_16BF, 576, 704, 576));
    for (long i = 0; i < times; i++)
        CHECK(cublasLtMatmul(lt, desc, &alpha, a, al, b, bl, &beta, c, dl, c, dl, NULL, NULL, 0,
                             NULL));
    note("cublasLtMatmul", 576, 704, 448, 1, times);
    CHECK(cublasLtMatrixLayoutDestroy(al));
    CHECK(cublasLtMatrixLayoutDestroy(bl));
    CHECK(cublasLtMatrixLayoutDestroy(dl));
    CHECK(cublasLtMatmulDescDestroy(desc));
}

static void multiply_large(int n)
{
    CHECK(cublasGemmEx(blas, OP_N, OP_N, n, n, n, &alpha, a, R_16BF, n, b, R_16BF, n, &beta, c,
                       R_16BF, n, COMPUTE_32F, ALGO_DEFAULT));
}

/* Nanoseconds of one large product, in the fastest of three rounds. */
static double peak(int n, long times)
{
    cudaEvent_t from, to;
    float ms, best = 0;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    multiply_large(n); /* the first call loads the kernel and chooses the algorithm */
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 3; round++) {
        CHECK(cudaEventRecord(from, NULL));
        for (long i = 0; i < times; i++)
            multiply_large(n);
        CHECK(cudaEventRecord(to, NULL));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms, from, to));
        best = round == 0 || ms < best ? ms : best;
    }
    note("cublasGemmEx", n, n, n, 1, 1 + 3 * times);
    CHECK(cudaEventDestroy(from));
    CHECK(cudaEventDestroy(to));
    return (double)best * 1e6 / (double)times;
}

int main(int argc, char **argv)
{
    long times = number(argc, argv, "times", 5), large_ones = number(argc, argv, "peak", 10);
    int n = (int)number(argc, argv, "size", 8192);
    size_t bytes = (size_t)(n > 1024 ? n : 1024) * (size_t)(n > 1024 ? n : 1024) * sizeof(float);
    alpha = (float)number(argc, argv, "ns", 2000);
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMalloc(&c, bytes));
    /* With zeroes the device would need less power and run faster. 0x3a3a is 7.1e-4 in
     * bfloat16. */
    CHECK(cudaMemset(a, 0x3a, bytes));
    CHECK(cudaMemset(b, 0xba, bytes));
    CHECK(cublasCreate_v2(&blas));
    CHECK(cublasLtCreate(&lt));
    printf("{\"products\": [");
    multiply_each(times);
    double ns = peak(n, large_ones);
    printf("], \"large\": {\"flops\": %.0f, \"ns\": %.0f}}\n", 2.0 * n * n * n, ns);
    CHECK(cudaDeviceSynchronize());
    CHECK(cublasLtDestroy(lt));
    CHECK(cublasDestroy_v2(blas));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    return 0;
}
