/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every interposed call of a matrix library shares. Expanded from blas.def. Application
 * threads; nothing here waits or allocates but the lookup of a real function at its first call.
 *
 * cuBLAS, cuBLASLt and cuDNN give their symbols version nodes named by their sonames, so each
 * version has wrappers and real functions of its own, as cudart does (hooks.h). BLAS has none:
 * there each calling object gets the function that it would have got without us.
 */
#ifndef PRELOAD_FLOPS_BLAS_H
#define PRELOAD_FLOPS_BLAS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/link/link.h"
#include "writer/writer.h"

enum blas_node {
    BLAS_NODE_B11,
    BLAS_NODE_B12,
    BLAS_NODE_B13,
    BLAS_NODE_BANY,
    BLAS_NODE_L11,
    BLAS_NODE_L12,
    BLAS_NODE_L13,
    BLAS_NODE_LANY,
    BLAS_NODE_D8,
    BLAS_NODE_D9,
    BLAS_NODE_DANY,
    BLAS_NODE_CPU,
    BLAS_NODE_COUNT
};

/* What .symver appends to the exported name; the nodes stand in exports.map. */
#define BLAS_SUFFIX_B11  "@libcublas.so.11"
#define BLAS_SUFFIX_B12  "@libcublas.so.12"
#define BLAS_SUFFIX_B13  "@libcublas.so.13"
#define BLAS_SUFFIX_BANY "@@CPROF_1"
#define BLAS_SUFFIX_L11  "@libcublasLt.so.11"
#define BLAS_SUFFIX_L12  "@libcublasLt.so.12"
#define BLAS_SUFFIX_L13  "@libcublasLt.so.13"
#define BLAS_SUFFIX_LANY "@@CPROF_1"
#define BLAS_SUFFIX_D8   "@libcudnn.so.8"
#define BLAS_SUFFIX_D9   "@libcudnn.so.9"
#define BLAS_SUFFIX_DANY "@@CPROF_1"
#define BLAS_SUFFIX_CPU  "@@CPROF_1"

enum blas_id {
#define BLAS(node, symbol, ...) BLAS_##node##_##symbol,
#include "preload/flops/blas.def"
#undef BLAS
    BLAS_COUNT
};

/* c10::ScalarType of what is multiplied. */
enum blas_type {
    BLAS_INT8 = 1,
    BLAS_HALF = 5,
    BLAS_FLOAT = 6,
    BLAS_DOUBLE = 7,
    BLAS_COMPLEX_FLOAT = 9,
    BLAS_COMPLEX_DOUBLE = 10,
    BLAS_BFLOAT16 = 15,
    BLAS_FLOAT8_E5M2 = 23,
    BLAS_FLOAT8_E4M3 = 24,
    BLAS_FLOAT4 = 45,
    BLAS_TF32 = DTYPE_TF32,
    BLAS_NONE = 0xfffe, /* it does nothing that is counted */
    BLAS_UNKNOWN = FLOPS_NOT_KNOWN
};

/* The numbers of the libraries' headers. */
enum {
#define NUMBER(library, name, value) name = value,
#include "preload/flops/library_numbers.def"
#undef NUMBER
};

/* What one call does. type BLAS_UNKNOWN: its arguments did not tell. */
struct blas_work {
    uint64_t flops, bytes;
    uint32_t type; /* enum blas_type */
};

/* One call that is recorded, or whose real function is not known yet; lives on the wrapper's
 * stack. */
struct blas_call {
    void *real;             /* NULL when there is none */
    struct thread_log *log; /* where the call's span is open, or NULL */
    struct open_span *span;
    enum blas_id id;
};

/* Real functions of the libraries with version nodes; any thread writes, all write the same;
 * relaxed. */
extern _Atomic(void *) blas_found[BLAS_COUNT] __attribute__((visibility("hidden")));
/* Those of BLAS, by calling object. */
extern struct callee_slot blas_callees[BLAS_COUNT] __attribute__((visibility("hidden")));

/* The real function while nothing is recorded, NULL when blas_begin() has to look. Calls nothing,
 * so that a wrapper that only forwards moves none of its arguments. Any thread. */
static inline void *blas_fast(enum blas_node node, enum blas_id id, const void *caller)
{
    if (gate_open(GATE_FLOPS))
        return NULL;
    if (node == BLAS_NODE_CPU)
        return callee_in_front(&blas_callees[id], caller);
    return atomic_load_explicit(&blas_found[id], memory_order_relaxed);
}

/* The real function, looked up if need be; NULL: there is none, and one line has said so. Keeps
 * errno. Any thread. */
void *blas_real(enum blas_id id, const void *caller);

/* Finds the real function; opens a span while FLOPs are recorded. `caller` is the wrapper's return
 * address. Keeps errno. */
void blas_begin(struct blas_call *call, enum blas_id id, const void *caller);

/* Gives the open span its count. */
void blas_count(const struct blas_call *call, const struct blas_work *w);

/* After the real call: closes the span; what failed has done nothing. Keeps errno. The same thread
 * as blas_begin(). */
void blas_end(const struct blas_call *call, bool succeeded);

/* ---- counting: 2mnk for real numbers, 8mnk for complex ones; a size below 0 counts nothing --- */

/* `batch` products of m x k by k x n. */
void blas_gemm(struct blas_work *w, int64_t m, int64_t n, int64_t k, int64_t batch,
               enum blas_type type);
/* So many elements are read or written; below 0: none. */
void blas_move(struct blas_work *w, int64_t elements, enum blas_type type);
/* Of each group `many` products; the arrays have `groups` items of `width` bytes: int or
 * int64_t. */
void blas_groups(struct blas_work *w, const void *m, const void *n, const void *k, int64_t groups,
                 const void *many, size_t width, enum blas_type type);
/* One triangle of an n x n matrix, from n x k: n(n + 1)k, four times that for complex numbers
 * (LAPACK Working Note 41). */
void blas_syrk(struct blas_work *w, int64_t n, int64_t k, enum blas_type type);
/* `batch` triangular systems for m x n right sides: n m^2, or m n^2 from the right, four times that
 * for complex numbers (LAPACK Working Note 41). */
void blas_trsm(struct blas_work *w, bool left, int64_t m, int64_t n, int64_t batch,
               enum blas_type type);
/* cublasLtMatmul: sizes, types and batches as the library tells them of its descriptors. */
void blas_lt(struct blas_work *w, const struct blas_call *call, const void *desc, const void *a,
             const void *d);

/* The type that a cudaDataType is multiplied in; compute: cublasComputeType_t, -1 = none. */
enum blas_type blas_dtype(int data_type, int compute);

/* What cuBLAS multiplies single precision in: TF32 where the handle's math mode says so. */
enum blas_type blas_single(const struct blas_call *call, void *handle);

/* blas_dtype(), by the handle's math mode where the compute type leaves it open. */
enum blas_type blas_typed(const struct blas_call *call, void *handle, int data_type, int compute);

/* The function of the library that has `real`; NULL: it has none. Goes through the loader: call it
 * once. */
void *blas_sibling(void *real, const char *symbol);

#endif
