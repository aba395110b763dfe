/* SPDX-License-Identifier: Apache-2.0 */
/* See blas.h. Application threads; no lock. */
#include "preload/blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/callee.h"
#include "preload/guard.h"
#include "preload/resolve.h"

struct blas_info {
    char symbol[32];
    uint8_t node;
};

static const struct blas_info infos[BLAS_COUNT] = {
#define BLAS(node, symbol, ...) {#symbol, BLAS_NODE_##node},
#include "preload/blas.def"
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
    [BLAS_NODE_CPU] = {NULL, {"libblas.so.3", "libopenblas.so.0", "libmkl_rt.so.2"}, "libopenblas"},
};

/* Real functions of the libraries with version nodes; any thread writes, all write the same; relaxed. */
static _Atomic(void *) found[BLAS_COUNT];
/* Those of BLAS, by calling object. */
static struct callee_slot callees[BLAS_COUNT];

static void *find_real(enum blas_id id, const void *caller)
{
    const struct resolve_library *library = &libraries[infos[id].node];
    if (infos[id].node == BLAS_NODE_CPU)
        return callee_find(&callees[id], infos[id].symbol, library, caller);
    void *real = atomic_load_explicit(&found[id], memory_order_relaxed);
    if (real)
        return real;
    real = resolve_next(infos[id].symbol, library, caller);
    if (real)
        atomic_store_explicit(&found[id], real, memory_order_relaxed);
    return real;
}

void *blas_fast(enum blas_id id, const void *caller)
{
    if (gate_open(GATE_FLOPS))
        return NULL;
    if (infos[id].node == BLAS_NODE_CPU)
        return find_real(id, caller);
    return atomic_load_explicit(&found[id], memory_order_relaxed);
}

/* "cublasSgemm" for cublasSgemm_v2. */
static uint32_t shown_length(const char *symbol)
{
    size_t n = strlen(symbol);
    return (uint32_t)(n > 3 && strcmp(symbol + n - 3, "_v2") == 0 ? n - 3 : n);
}

void blas_begin(struct blas_call *call, enum blas_id id, const void *caller)
{
    int saved = errno;
    bool entered = guard_enter();
    *call = (struct blas_call){.real = find_real(id, caller), .id = id};
    if (!call->real)
        log_error("%s is called, but no loaded library has it", infos[id].symbol);
    if (entered && call->real && gate_open(GATE_FLOPS))
        call->log = thread_log_get();
    if (call->log) {
        const char *symbol = infos[id].symbol;
        call->span = span_open(call->log, call, CAT_LIBRARY, symbol, shown_length(symbol));
    }
    if (entered)
        guard_leave();
    errno = saved;
}

void blas_count(const struct blas_call *call, const struct blas_work *w)
{
    bool cpu = infos[call->id].node == BLAS_NODE_CPU;
    if (!call->span)
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
    if (call->span && !succeeded) {
        span_set_extra(call->log, call->span, EXTRA_BYTES, 0);
        span_set_extra(call->log, call->span, EXTRA_FLOPS, 0);
    }
    span_close(call->log, call);
    guard_leave();
    errno = saved;
}

/* ---- counting ----------------------------------------------------------------------------------------------- */

static uint64_t size_of(enum blas_type type)
{
    switch (type) {
    case BLAS_COMPLEX_DOUBLE:
        return 16;
    case BLAS_DOUBLE:
    case BLAS_COMPLEX_FLOAT:
        return 8;
    case BLAS_FLOAT:
    case BLAS_TF32:
        return 4;
    case BLAS_HALF:
    case BLAS_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

static bool is_complex(enum blas_type type)
{
    return type == BLAS_COMPLEX_FLOAT || type == BLAS_COMPLEX_DOUBLE;
}

/* `products` multiplications and additions, `elements` read and written. False: a number that makes no sense. */
static bool add(struct blas_work *w, double products, double elements, enum blas_type type)
{
    w->type = type;
    if (type == BLAS_UNKNOWN || !(products >= 0 && products < 1e18 && elements < 1e18)) {
        w->type = BLAS_UNKNOWN;
        return false;
    }
    return true;
}

void blas_gemm(struct blas_work *w, int64_t m, int64_t n, int64_t k, int64_t batch,
               enum blas_type type)
{
    double elements = ((double)m * (double)k + (double)k * (double)n + (double)m * (double)n);
    double products = (double)m * (double)n * (double)k * (double)batch;
    if (m < 0 || n < 0 || k < 0 || batch < 0 || !add(w, products, elements * (double)batch, type)) {
        w->type = BLAS_UNKNOWN;
        return;
    }
    w->flops +=
        (is_complex(type) ? 8u : 2u) * (uint64_t)m * (uint64_t)n * (uint64_t)k * (uint64_t)batch;
    uint64_t rows = (uint64_t)m, columns = (uint64_t)n, depth = (uint64_t)k;
    w->bytes += (rows * depth + depth * columns + rows * columns) * (uint64_t)batch * size_of(type);
}

void blas_groups(struct blas_work *w, const int *m, const int *n, const int *k, int groups,
                 const int *size, enum blas_type type)
{
    w->type = type;
    if (!m || !n || !k || !size || groups < 0)
        w->type = BLAS_UNKNOWN;
    for (int i = 0; i < groups && w->type != BLAS_UNKNOWN; i++)
        blas_gemm(w, m[i], n[i], k[i], size[i], type);
}

void blas_syrk(struct blas_work *w, int64_t n, int64_t k, enum blas_type type)
{
    if (n < 0 || k < 0 || !add(w, (double)n * (double)(n + 1) * (double)k, 0, type)) {
        w->type = BLAS_UNKNOWN;
        return;
    }
    w->flops += (uint64_t)n * (uint64_t)(n + 1) * (uint64_t)k;
    w->bytes += ((uint64_t)n * (uint64_t)k + (uint64_t)n * (uint64_t)(n + 1) / 2) * size_of(type);
}

void blas_trsm(struct blas_work *w, bool left, int64_t m, int64_t n, int64_t batch,
               enum blas_type type)
{
    int64_t order = left ? m : n;
    if (m < 0 || n < 0 || batch < 0 ||
        !add(w, (double)m * (double)n * (double)order * (double)batch, 0, type)) {
        w->type = BLAS_UNKNOWN;
        return;
    }
    w->flops += (uint64_t)m * (uint64_t)n * (uint64_t)order * (uint64_t)batch;
    uint64_t triangle = (uint64_t)order * (uint64_t)(order + 1) / 2;
    w->bytes += (triangle + 2 * (uint64_t)m * (uint64_t)n) * (uint64_t)batch * size_of(type);
}

enum blas_type blas_dtype(int data_type, int compute)
{
    /* cublasComputeType_t: single precision in faster units */
    if (data_type == 0 && (compute == 74 || compute == 75 || compute == 77))
        return compute == 74 ? BLAS_HALF : compute == 75 ? BLAS_BFLOAT16 : BLAS_TF32;
    switch (data_type) { /* cudaDataType */
    case 0:
        return BLAS_FLOAT;
    case 1:
        return BLAS_DOUBLE;
    case 2:
        return BLAS_HALF;
    case 3:
        return BLAS_INT8;
    case 4:
        return BLAS_COMPLEX_FLOAT;
    case 5:
        return BLAS_COMPLEX_DOUBLE;
    case 14:
        return BLAS_BFLOAT16;
    case 28:
        return BLAS_FLOAT8_E4M3;
    case 29:
        return BLAS_FLOAT8_E5M2;
    case 33:
        return BLAS_FLOAT4;
    default:
        return BLAS_UNKNOWN;
    }
}

/* ---- cuBLASLt's descriptors --------------------------------------------------------------------------------- */

/* cublasLtMatrixLayoutGetAttribute, cublasLtMatmulDescGetAttribute. */
typedef int (*getter)(const void *object, int attribute, void *value, size_t size, size_t *written);

/* Of the library whose cublasLtMatmul is `real`; any thread writes, real last; release, acquire. */
static struct {
    _Atomic(void *) real;   /* which library */
    _Atomic(getter) layout; /* relaxed */
    _Atomic(getter) desc;   /* relaxed */
} getters;

static getter look_up(void *real, const char *symbol)
{
    Dl_info info;
    void *handle = dladdr(real, &info) && info.dli_fname
                       ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)
                       : NULL;
    getter got = NULL;
    if (handle)
        *(void **)&got = dlsym(handle, symbol);
    dlerror();
    return got;
}

static bool read_attribute(getter get, const void *object, int attribute, void *value, size_t size)
{
    size_t written = 0;
    return get && object && get(object, attribute, value, size, &written) == 0 && written == size;
}

void blas_lt(struct blas_work *w, void *real, const void *desc, const void *a, const void *d)
{
    enum { TYPE = 0, ROWS = 2, COLUMNS = 3, BATCH = 5 }; /* cublasLtMatrixLayoutAttribute_t */
    enum { COMPUTE = 0, TRANSA = 3 };                    /* cublasLtMatmulDescAttributes_t */
    int saved = errno;
    bool entered = guard_enter();
    if (atomic_load_explicit(&getters.real, memory_order_acquire) != real) {
        atomic_store(&getters.layout, look_up(real, "cublasLtMatrixLayoutGetAttribute"));
        atomic_store(&getters.desc, look_up(real, "cublasLtMatmulDescGetAttribute"));
        atomic_store_explicit(&getters.real, real, memory_order_release);
    }
    getter layout = atomic_load_explicit(&getters.layout, memory_order_relaxed);
    getter matmul = atomic_load_explicit(&getters.desc, memory_order_relaxed);
    uint64_t m, n, a_rows, a_columns;
    int32_t type, batch = 1, compute = -1, transposed = 0;
    bool known = read_attribute(layout, d, ROWS, &m, sizeof m) &&
                 read_attribute(layout, d, COLUMNS, &n, sizeof n) &&
                 read_attribute(layout, a, ROWS, &a_rows, sizeof a_rows) &&
                 read_attribute(layout, a, COLUMNS, &a_columns, sizeof a_columns) &&
                 read_attribute(layout, a, TYPE, &type, sizeof type) &&
                 read_attribute(layout, d, BATCH, &batch, sizeof batch) &&
                 read_attribute(matmul, desc, COMPUTE, &compute, sizeof compute) &&
                 read_attribute(matmul, desc, TRANSA, &transposed, sizeof transposed);
    if (known)
        blas_gemm(w, (int64_t)m, (int64_t)n, (int64_t)(transposed ? a_rows : a_columns), batch,
                  blas_dtype(type, compute));
    else
        w->type = BLAS_UNKNOWN;
    if (entered)
        guard_leave();
    errno = saved;
}
