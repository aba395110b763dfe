/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the interposed calls of matrix libraries (blas.def). Application threads. Nothing
 * here waits; only the first call of each function, which looks up the real one, may allocate.
 *
 * cuBLAS, cuBLASLt and cuDNN have version nodes named after their sonames. So each version has its
 * own wrappers and real functions, as cudart does (hooks.h). BLAS has none: each calling object
 * gets the function that it would have without cprof. */
#pragma once

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

/* Suffix that .symver appends to the exported name; exports.map has the nodes. */
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

/* c10::ScalarType of the products. */
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
    BLAS_NONE = 0xfffe, /* nothing that is counted */
    BLAS_UNKNOWN = FLOPS_NOT_KNOWN
};

/* Numbers from the libraries' headers. */
enum {
#define NUMBER(library, name, value) name = value,
#include "preload/flops/library_numbers.def"
#undef NUMBER
};

/* Work of one call. type BLAS_UNKNOWN: the arguments do not determine it. */
struct blas_work {
    uint64_t flops, bytes;
    uint32_t type; /* enum blas_type */
};

/* A call on the slow path: recorded, or its real function is still to be found. On the wrapper's
 * stack. */
struct blas_call {
    void *real;             /* NULL: not found */
    struct thread_log *log; /* log of the open span, or NULL */
    struct open_span *span;
    enum blas_id id;
};

/* Real functions of libraries with version nodes. Any thread writes, always the same value;
 * relaxed. */
extern _Atomic(void *) blas_found[BLAS_COUNT] __attribute__((visibility("hidden")));
/* Real functions of BLAS, by calling object. */
extern struct callee_slot blas_callees[BLAS_COUNT] __attribute__((visibility("hidden")));

/* Returns the real function while nothing is recorded. NULL: call blas_begin(). Calls no function,
 * so the wrapper need not save its arguments. Any thread. */
static inline void *blas_fast(enum blas_node node, enum blas_id id, const void *caller)
{
    if (gate_open(GATE_FLOPS))
        return NULL;
    if (node == BLAS_NODE_CPU)
        return callee_in_front(&blas_callees[id], caller);
    return atomic_load_explicit(&blas_found[id], memory_order_relaxed);
}

/* The real function, looked up if needed; NULL: not found, and logged once. Keeps errno. Any
 * thread. */
void *blas_real(enum blas_id id, const void *caller);

/* Finds the real function and, if FLOPs are recorded, opens a span. caller: the wrapper's return
 * address. Keeps errno. */
void blas_begin(struct blas_call *call, enum blas_id id, const void *caller);

/* Adds the work to the open span. */
void blas_count(const struct blas_call *call, const struct blas_work *w);

/* Call after the real call, on the same thread: closes the span. A failed call counts as no work.
 * Keeps errno. */
void blas_end(const struct blas_call *call, bool succeeded);

/* ---- counting: 2mnk for real numbers, 8mnk for complex numbers; negative sizes are unknown --- */

/* `batch` products of m x k by k x n. */
void blas_gemm(struct blas_work *w, int64_t m, int64_t n, int64_t k, int64_t batch,
               enum blas_type type);
/* Adds bytes for elements read or written; ignores a negative number. */
void blas_move(struct blas_work *w, int64_t elements, enum blas_type type);
/* many[i] products in each of `groups` groups. Array items have `width` bytes: int or int64_t. */
void blas_groups(struct blas_work *w, const void *m, const void *n, const void *k, int64_t groups,
                 const void *many, size_t width, enum blas_type type);
/* One triangle of an n x n matrix from n x k: n(n + 1)k operations, four times that for complex
 * numbers (LAPACK Working Note 41). */
void blas_syrk(struct blas_work *w, int64_t n, int64_t k, enum blas_type type);
/* `batch` triangular systems with m x n right-hand sides: n m^2 operations, or m n^2 from the
 * right; four times that for complex numbers (LAPACK Working Note 41). */
void blas_trsm(struct blas_work *w, bool left, int64_t m, int64_t n, int64_t batch,
               enum blas_type type);
/* cublasLtMatmul: reads sizes, types and batches of the descriptors through the library. */
void blas_lt(struct blas_work *w, const struct blas_call *call, const void *desc, const void *a,
             const void *d);

/* The type in which a cudaDataType is multiplied. compute: cublasComputeType_t; -1: none. */
enum blas_type blas_dtype(int data_type, int compute);

/* The type in which cuBLAS multiplies single precision: TF32 if the handle's math mode allows
 * it. */
enum blas_type blas_single(const struct blas_call *call, void *handle);

/* blas_dtype(), with the handle's math mode where the compute type leaves the choice. */
enum blas_type blas_typed(const struct blas_call *call, void *handle, int data_type, int compute);

/* The function `symbol` of the library that contains `real`; NULL: none. Takes the loader's lock,
 * so call it once. */
void *blas_sibling(void *real, const char *symbol);
