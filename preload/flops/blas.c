/* SPDX-License-Identifier: Apache-2.0 */
/* Finds real functions of matrix libraries and counts their FLOPs. Application threads; no lock. */
#include "preload/flops/blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/core/core.h"
#include "preload/link/link.h"
#include "preload/stacks/stacks.h"

struct blas_info {
    char symbol[40];
    uint8_t node;
};

static const struct blas_info infos[BLAS_COUNT] = {
#define BLAS(node, symbol, ...) {#symbol, BLAS_NODE_##node},
#include "preload/flops/blas.def"
#undef BLAS
};

static const struct resolve_library libraries[BLAS_NODE_COUNT] = {
    [BLAS_NODE_B11] = {"libcublas.so.11", {"libcublas.so.11"}, "libcublas.so"},
    [BLAS_NODE_B12] = {"libcublas.so.12", {"libcublas.so.12"}, "libcublas.so"},
    [BLAS_NODE_B13] = {"libcublas.so.13", {"libcublas.so.13"}, "libcublas.so"},
    [BLAS_NODE_BANY] = {NULL,
                        {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
                        "libcublas.so"},
    [BLAS_NODE_L11] = {"libcublasLt.so.11", {"libcublasLt.so.11"}, "libcublasLt.so"},
    [BLAS_NODE_L12] = {"libcublasLt.so.12", {"libcublasLt.so.12"}, "libcublasLt.so"},
    [BLAS_NODE_L13] = {"libcublasLt.so.13", {"libcublasLt.so.13"}, "libcublasLt.so"},
    [BLAS_NODE_LANY] = {NULL,
                        {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
                        "libcublasLt.so"},
    [BLAS_NODE_D8] = {"libcudnn.so.8", {"libcudnn.so.8"}, "libcudnn.so"},
    [BLAS_NODE_D9] = {"libcudnn.so.9", {"libcudnn.so.9"}, "libcudnn.so"},
    [BLAS_NODE_DANY] = {NULL, {"libcudnn.so.9", "libcudnn.so.8"}, "libcudnn.so"},
    [BLAS_NODE_CPU] = {NULL, {"libblas.so.3", "libopenblas.so.0", "libmkl_rt.so.2"}, "libopenblas"},
};

_Atomic(void *) blas_found[BLAS_COUNT];
struct callee_slot blas_callees[BLAS_COUNT];

static void *find_real(enum blas_id id, const void *caller)
{
    const struct resolve_library *library = &libraries[infos[id].node];
    if (infos[id].node == BLAS_NODE_CPU)
        return callee_find(&blas_callees[id], infos[id].symbol, library, caller);
    void *real = atomic_load_explicit(&blas_found[id], memory_order_relaxed);
    if (real)
        return real;
    real = resolve_next(infos[id].symbol, library, caller);
    if (real)
        atomic_store_explicit(&blas_found[id], real, memory_order_relaxed);
    return real;
}

void *blas_real(enum blas_id id, const void *caller)
{
    static _Atomic bool said[BLAS_COUNT];
    int saved = errno;
    void *real = find_real(id, caller);
    if (!real && !atomic_exchange_explicit(&said[id], true, memory_order_relaxed))
        log_error("%s is called, but no loaded library has it", infos[id].symbol);
    errno = saved;
    return real;
}

/* Name in traces: "cublasSgemm" for cublasSgemm_v2 and cublasSgemm_v2_64. */
static uint32_t shown_name(enum blas_id id)
{
    static _Atomic uint32_t names[BLAS_COUNT];
    uint32_t name = numbered_before(&names[id]);
    if (!name) {
        const char *symbol = infos[id].symbol, *version = strstr(symbol, "_v");
        size_t length = version ? (size_t)(version - symbol) : strlen(symbol);
        name = numbered_once(&names[id], symbol, (uint32_t)length);
    }
    return name;
}

void blas_begin(struct blas_call *call, enum blas_id id, const void *caller)
{
    int saved = errno;
    bool entered = guard_enter();
    *call = (struct blas_call){.real = blas_real(id, caller), .id = id};
    if (entered && call->real && gate_open(GATE_FLOPS))
        call->log = thread_log_get();
    if (call->log) {
        call->span = span_open(call->log, call, CAT_LIBRARY, infos[id].symbol, shown_name(id));
        stacks_open_span(call->log, call->span);
    }
    if (entered)
        guard_leave();
    errno = saved;
}

void blas_count(const struct blas_call *call, const struct blas_work *w)
{
    bool cpu = infos[call->id].node == BLAS_NODE_CPU;
    if (!call->span || w->type == BLAS_NONE)
        return;
    if (w->type == BLAS_UNKNOWN) {
        span_set_extra(call->log, call->span, EXTRA_DTYPE, FLOPS_NOT_KNOWN);
        return;
    }
    span_set_flops(call->log, call->span, w->flops, w->bytes, record_where(w->type, !cpu, 0xff));
}

void blas_end(const struct blas_call *call, bool succeeded)
{
    int saved = errno;
    if (!call->log || !guard_enter())
        return;
    if (call->span && !succeeded) /* a failed call did no work, so its FLOPs are known: 0 */
        span_set_flops(call->log, call->span, 0, 0, record_where(BLAS_FLOAT, 1, 0xff));
    span_close(call->log, call);
    guard_leave();
    errno = saved;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Bytes of `elements`. */
static uint64_t bytes_of(uint64_t elements, enum blas_type type)
{
    switch (type) {
    case BLAS_COMPLEX_DOUBLE:
        return elements * 16;
    case BLAS_DOUBLE:
    case BLAS_COMPLEX_FLOAT:
        return elements * 8;
    case BLAS_FLOAT:
    case BLAS_TF32:
        return elements * 4;
    case BLAS_HALF:
    case BLAS_BFLOAT16:
        return elements * 2;
    case BLAS_FLOAT4:
        return (elements + 1) / 2;
    default:
        return elements;
    }
}

static bool is_complex(enum blas_type type)
{
    return type == BLAS_COMPLEX_FLOAT || type == BLAS_COMPLEX_DOUBLE;
}

/* Sets the type. Returns false, with BLAS_UNKNOWN, if the type is unknown or a number is
 * implausible. */
static bool set_type(struct blas_work *w, double products, double elements, enum blas_type type)
{
    w->type = type;
    if (type == BLAS_UNKNOWN || !(products >= 0 && products < 1e18 && elements < 1e18)) {
        w->type = BLAS_UNKNOWN;
        return false;
    }
    return true;
}

void blas_move(struct blas_work *w, int64_t elements, enum blas_type type)
{
    w->bytes += elements > 0 ? bytes_of((uint64_t)elements, type) : 0;
}

void blas_gemm(struct blas_work *w, int64_t m, int64_t n, int64_t k, int64_t batch,
               enum blas_type type)
{
    double elements = ((double)m * (double)k + (double)k * (double)n + (double)m * (double)n);
    double products = (double)m * (double)n * (double)k * (double)batch;
    if (m < 0 || n < 0 || k < 0 || batch < 0 ||
        !set_type(w, products, elements * (double)batch, type)) {
        w->type = BLAS_UNKNOWN;
        return;
    }
    w->flops +=
        (is_complex(type) ? 8u : 2u) * (uint64_t)m * (uint64_t)n * (uint64_t)k * (uint64_t)batch;
    uint64_t rows = (uint64_t)m, columns = (uint64_t)n, depth = (uint64_t)k;
    w->bytes += bytes_of((rows * depth + depth * columns + rows * columns) * (uint64_t)batch, type);
}

/* array[i] of an array of int or int64_t. */
static int64_t item(const void *array, int64_t i, size_t width)
{
    return width == sizeof(int) ? ((const int *)array)[i] : ((const int64_t *)array)[i];
}

void blas_groups(struct blas_work *w, const void *m, const void *n, const void *k, int64_t groups,
                 const void *many, size_t width, enum blas_type type)
{
    w->type = type;
    if (!m || !n || !k || !many || groups < 0)
        w->type = BLAS_UNKNOWN;
    for (int64_t i = 0; i < groups && w->type != BLAS_UNKNOWN; i++)
        blas_gemm(w, item(m, i, width), item(n, i, width), item(k, i, width), item(many, i, width),
                  type);
}

void blas_syrk(struct blas_work *w, int64_t n, int64_t k, enum blas_type type)
{
    if (n < 0 || k < 0 || !set_type(w, (double)n * (double)(n + 1) * (double)k, 0, type)) {
        w->type = BLAS_UNKNOWN;
        return;
    }
    w->flops += (is_complex(type) ? 4u : 1u) * (uint64_t)n * (uint64_t)(n + 1) * (uint64_t)k;
    w->bytes += bytes_of((uint64_t)n * (uint64_t)k + (uint64_t)n * (uint64_t)(n + 1) / 2, type);
}

void blas_trsm(struct blas_work *w, bool left, int64_t m, int64_t n, int64_t batch,
               enum blas_type type)
{
    int64_t order = left ? m : n;
    if (m < 0 || n < 0 || batch < 0 ||
        !set_type(w, (double)m * (double)n * (double)order * (double)batch, 0, type)) {
        w->type = BLAS_UNKNOWN;
        return;
    }
    w->flops += (is_complex(type) ? 4u : 1u) * (uint64_t)m * (uint64_t)n * (uint64_t)order *
                (uint64_t)batch;
    uint64_t triangle = (uint64_t)order * (uint64_t)(order + 1) / 2;
    w->bytes += bytes_of((triangle + 2 * (uint64_t)m * (uint64_t)n) * (uint64_t)batch, type);
}

/* The type in which a cublasComputeType_t multiplies single precision. */
static enum blas_type computed_in(int compute)
{
    switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_16F:
        return BLAS_HALF;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
        return BLAS_BFLOAT16;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return BLAS_TF32;
    default:
        return BLAS_FLOAT;
    }
}

enum blas_type blas_dtype(int data_type, int compute)
{
    switch (data_type) {
    case CUDA_R_32F:
        return computed_in(compute);
    case CUDA_R_64F:
        return BLAS_DOUBLE;
    case CUDA_R_16F:
        return BLAS_HALF;
    case CUDA_R_8I:
    case CUDA_R_8U:
        return BLAS_INT8;
    case CUDA_C_32F:
        return BLAS_COMPLEX_FLOAT;
    case CUDA_C_64F:
        return BLAS_COMPLEX_DOUBLE;
    case CUDA_R_16BF:
        return BLAS_BFLOAT16;
    case CUDA_R_8F_E4M3:
        return BLAS_FLOAT8_E4M3;
    case CUDA_R_8F_E5M2:
        return BLAS_FLOAT8_E5M2;
    case CUDA_R_4F_E2M1:
        return BLAS_FLOAT4;
    default:
        return BLAS_UNKNOWN;
    }
}

/* ---- cuBLAS' math mode ----------------------------------------------------------------------- */

typedef int (*mode_getter)(void *handle, int *mode);

/* Stands in for a missing cublasGetMathMode(). */
static int no_mode(void *handle, int *mode)
{
    (void)handle, (void)mode;
    return 1;
}

/* cublasGetMathMode() of each call's library. Any thread writes, always the same value; relaxed. */
static _Atomic(mode_getter) math_modes[BLAS_COUNT];

enum blas_type blas_single(const struct blas_call *call, void *handle)
{
    int saved = errno, mode = 0;
    bool entered = guard_enter();
    mode_getter get = atomic_load_explicit(&math_modes[call->id], memory_order_relaxed);
    if (!get) {
        *(void **)&get = blas_sibling(call->real, "cublasGetMathMode");
        get = get ? get : no_mode;
        atomic_store_explicit(&math_modes[call->id], get, memory_order_relaxed);
    }
    bool known = handle && get(handle, &mode) == 0;
    mode &= CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION - 1;
    if (entered)
        guard_leave();
    errno = saved;
    return known && mode == CUBLAS_TF32_TENSOR_OP_MATH ? BLAS_TF32 : BLAS_FLOAT;
}

enum blas_type blas_typed(const struct blas_call *call, void *handle, int data_type, int compute)
{
    bool open = compute == CUBLAS_COMPUTE_32F || compute < 0;
    return data_type == CUDA_R_32F && open ? blas_single(call, handle)
                                           : blas_dtype(data_type, compute);
}

/* ---- cuBLASLt's descriptors ------------------------------------------------------------------ */

/* cublasLtMatrixLayoutGetAttribute or cublasLtMatmulDescGetAttribute. */
typedef int (*getter)(const void *object, int attribute, void *value, size_t size, size_t *written);

/* Stands in for a missing getter. */
static int no_getter(const void *object, int attribute, void *value, size_t size, size_t *written)
{
    (void)object, (void)attribute, (void)value, (void)size, (void)written;
    return 1;
}

/* By version of the library. Any thread writes, always the same value; relaxed. */
static struct {
    _Atomic(getter) layout; /* relaxed */
    _Atomic(getter) desc;   /* relaxed */
} getters[BLAS_NODE_COUNT];

void *blas_sibling(void *real, const char *symbol)
{
    Dl_info info;
    void *handle = dladdr(real, &info) && info.dli_fname
                       ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)
                       : NULL;
    void *got = handle ? loader_symbol(handle, symbol) : NULL;
    dlerror();
    return got;
}

static getter getter_of(_Atomic(getter) *place, void *real, const char *symbol)
{
    getter get = atomic_load_explicit(place, memory_order_relaxed);
    if (get)
        return get;
    *(void **)&get = blas_sibling(real, symbol);
    get = get ? get : no_getter;
    atomic_store_explicit(place, get, memory_order_relaxed);
    return get;
}

static bool read_attribute(getter get, const void *object, int attribute, void *value, size_t size)
{
    size_t written = 0;
    return object && get(object, attribute, value, size, &written) == 0 && written == size;
}

void blas_lt(struct blas_work *w, const struct blas_call *call, const void *desc, const void *a,
             const void *d)
{
    int saved = errno;
    bool entered = guard_enter();
    uint8_t node = infos[call->id].node;
    getter layout =
        getter_of(&getters[node].layout, call->real, "cublasLtMatrixLayoutGetAttribute");
    getter matmul = getter_of(&getters[node].desc, call->real, "cublasLtMatmulDescGetAttribute");
    uint64_t m, n, a_rows, a_columns;
    int32_t type, batch = 1, compute = -1, transposed = 0;
    bool known =
        read_attribute(layout, d, CUBLASLT_MATRIX_LAYOUT_ROWS, &m, sizeof m) &&
        read_attribute(layout, d, CUBLASLT_MATRIX_LAYOUT_COLS, &n, sizeof n) &&
        read_attribute(layout, a, CUBLASLT_MATRIX_LAYOUT_ROWS, &a_rows, sizeof a_rows) &&
        read_attribute(layout, a, CUBLASLT_MATRIX_LAYOUT_COLS, &a_columns, sizeof a_columns) &&
        read_attribute(layout, a, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type) &&
        read_attribute(layout, d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch) &&
        read_attribute(matmul, desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof compute) &&
        read_attribute(matmul, desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (known)
        blas_gemm(w, (int64_t)m, (int64_t)n, (int64_t)(transposed ? a_rows : a_columns), batch,
                  blas_dtype(type, compute));
    else
        w->type = BLAS_UNKNOWN;
    if (entered)
        guard_leave();
    errno = saved;
}
