/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLAS and cuBLASLt. --calls 1: each function once, with distinct arguments.
 * Else --steps steps of --products equal products of --us microseconds, or of --replays launches of
 * a graph that was captured before. Checks that the libraries got the arguments. */
#include <errno.h>

#include "preload/cprof.h"
#include "tests/gpu/blas_sim.h"
#include "tests/gpu/program.h"

enum { N_T, T_T, M = 64, N = 48, K = 32, R_32F = 0, R_16BF = 14, FAST_TF32 = 77, C_32F = 68 };

static char handle[8], tf32[8] = {3 | 16}, /* TF32 by its math mode */ a[8], b[8], c[8], space[8];
static float ns = 3000, zero;
static double ns_double = 3000;

static void each_call_once(void)
{
    int ta[] = {0, 1}, m[] = {2, 3}, n[] = {4, 5}, k[] = {6, 7}, ld[] = {8, 9}, size[] = {10, 11};
    struct blas_sim_desc desc = {C_32F, 1};
    struct blas_sim_layout al = {R_16BF, 3, K, M}, bl = {R_16BF, 3, K, N}, dl = {R_16BF, 3, M, N};
    errno = 55;
    CHECK(cublasSgemm_v2(handle, N_T, T_T, M, N, K, &ns, a, 1, b, 2, &zero, c, 3));
    GOT(P(handle), N_T, T_T, M, N, K, P(&ns), P(a), 1, P(b), 2, P(&zero), P(c), 3);
    CHECK(cublasSgemm_v2_64(tf32, N_T, T_T, M, N, K, &ns, a, 1l << 40, b, 2, &zero, c, 1l << 41));
    GOT(P(tf32), N_T, T_T, M, N, K, P(&ns), P(a), 1ul << 40, P(b), 2, P(&zero), P(c), 1ul << 41);
    CHECK(cublasGemmEx(handle, T_T, N_T, M, N, K, &ns, a, R_32F, 1, b, R_32F, 2, &zero, c, R_32F, 3,
                       FAST_TF32, -1));
    GOT(P(handle), T_T, N_T, M, N, K, P(&ns), P(a), R_32F, 1, P(b), R_32F, 2, P(&zero), P(c), R_32F,
        3, FAST_TF32, (uint64_t)-1);
    CHECK(cublasGemmStridedBatchedEx(handle, 0, 0, M, N, K, &ns, a, R_16BF, 1, 1ll << 40, b, R_16BF,
                                     2, 1ll << 41, &zero, c, R_16BF, 3, 1ll << 42, 5, C_32F, 7));
    GOT(P(handle), 0, 0, M, N, K, P(&ns), P(a), R_16BF, 1, 1ull << 40, P(b), R_16BF, 2, 1ull << 41,
        P(&zero), P(c), R_16BF, 3, 1ull << 42, 5, C_32F, 7);
    CHECK(cublasGemmGroupedBatchedEx(handle, ta, ta, m, n, k, &ns, a, R_16BF, ld, b, R_16BF, ld,
                                     &zero, c, R_16BF, ld, 2, size, C_32F));
    GOT(P(handle), P(ta), P(ta), P(m), P(n), P(k), P(&ns), P(a), R_16BF, P(ld), P(b), R_16BF, P(ld),
        P(&zero), P(c), R_16BF, P(ld), 2, P(size), C_32F);
    CHECK(cublasSsyrk_v2(handle, 1, 0, N, K, &ns, a, 1, &zero, c, 2));
    GOT(P(handle), 1, 0, N, K, P(&ns), P(a), 1, P(&zero), P(c), 2);
    CHECK(cublasDtrsmBatched(handle, 0, 1, 0, 1, M, N, &ns_double, a, 1, b, 2, 4));
    GOT(P(handle), 0, 1, 0, 1, M, N, P(&ns_double), P(a), 1, P(b), 2, 4);
    CHECK(cublasLtMatmul(handle, &desc, &ns, a, &al, b, &bl, &ns, c, &dl, c, &dl, space, space,
                         1ul << 40, NULL));
    GOT(P(handle), P(&desc), P(&ns), P(a), P(&al), P(b), P(&bl), P(&ns), P(c), P(&dl), P(c), P(&dl),
        P(space), P(space), 1ul << 40, 0);
    struct blas_sim_layout unread = {BLAS_SIM_UNREADABLE, 3, K, M};
    CHECK(cublasLtMatmul(handle, &desc, &ns, a, &unread, b, &bl, &zero, c, &dl, c, &dl, space,
                         space, 0, NULL));
    EXPECT(errno == 55);
    EXPECT(cublasSgemm_v2(NULL, N_T, T_T, M, N, K, &ns, a, 1, b, 2, &zero, c, 3) == 1);
    tally.kernels += 10; /* the product with a beta launches two */
}

/* Captures a memset, two products, of which the second has two kernels, and a kernel. */
static cudaGraphExec_t capture(cudaStream_t stream)
{
    struct blas_sim_desc desc = {C_32F, 1};
    struct blas_sim_layout al = {R_16BF, 3, K, M}, bl = {R_16BF, 3, K, N}, dl = {R_16BF, 3, M, N};
    static void *memory;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaMalloc(&memory, 64));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(memory, 0, 64, stream));
    CHECK(cublasLtMatmul(handle, &desc, &ns, a, &al, b, &bl, &zero, c, &dl, c, &dl, space, space, 0,
                         stream));
    CHECK(cublasLtMatmul(handle, &desc, &ns, a, &al, b, &bl, &ns, c, &dl, c, &dl, space, space, 0,
                         stream));
    CHECK(gpu_named(stream, GPU_SOFTMAX, 3000));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

static void replay(cudaGraphExec_t exec, cudaStream_t stream, long n)
{
    for (long i = 0; i < n; i++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    tally.stream_syncs++;
    tally.graph_launches += (uint64_t)n;
    tally.graph_kernels += (uint64_t)(n * 4);
    tally.graph_fills += (uint64_t)n;
}

int main(int argc, char **argv)
{
    long steps = number(argc, argv, "steps", 6), products = number(argc, argv, "products", 20);
    long m = number(argc, argv, "size", 1024);
    bool once = number(argc, argv, "calls", 0) != 0;
    ns = (float)number(argc, argv, "us", 200) * 1000;
    /* a call that wakes cprof comes before the first product, as in real programs */
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    long replays = number(argc, argv, "replays", 0);
    cudaStream_t stream;
    cudaGraphExec_t exec = NULL;
    if (replays) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        exec = capture(stream);
        products = 0;
    }
    for (long step = 0; step < steps; step++) {
        if (exec)
            replay(exec, stream, replays);
        if (once)
            each_call_once();
        for (long i = 0; i < products && !once; i++) {
            CHECK(cublasGemmEx(handle, 0, 0, (int)m, (int)m, (int)m, &ns, a, R_16BF, 1, b, R_16BF,
                               1, &zero, c, R_16BF, 1, C_32F, -1));
            tally.kernels++;
        }
        CHECK(cudaDeviceSynchronize());
        tally.device_syncs++;
        cprof_step();
        tally.steps++;
    }
    return report();
}
