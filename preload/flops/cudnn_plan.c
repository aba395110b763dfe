/* SPDX-License-Identifier: Apache-2.0 */
/* Counts FLOPs of cuDNN's execution plans. */
#include "preload/flops/cudnn_plan.h"

#include <errno.h>
#include <string.h>

#include "preload/flops/cudnn.h"

#define ROOM   16384u /* a power of two */
#define PROBES 64u    /* places that are searched */
#define DIMS   8      /* CUDNN_DIM_MAX */
#define NOTES  32     /* numerical notes of an engine; cuDNN 9 has ten kinds */
#define NEWEST                                                                                     \
    CUDNN_BACKEND_OPERATION_ROPE_BWD_DESCRIPTOR /* newest operation that is_operation() knows */

/* Operands of an operation. Attention multiplies queries (LEFT) by keys (RIGHT), and the result by
 * VALUES. */
enum operand { LEFT, RIGHT, RESULT, VALUES, OPERANDS };

struct tensor {
    int64_t size[DIMS];
    int dims;
    int type;     /* cudnnDataType_t; -1: not set */
    bool virtual; /* it is never in memory */
    bool ragged;  /* its sizes are upper limits */
};

struct descriptor {
    int type; /* cudnnBackendDescriptorType_t */
    union {
        struct tensor tensor;
        struct {
            const void *operands[OPERANDS]; /* operands of an operation that is being filled */
            const void *config;             /* the descriptor that this one is made from */
            bool overridden;                /* its sizes are set per execution */
            struct blas_work work;          /* of one execution; BLAS_UNKNOWN until known */
        };
    };
};

/* Keys are apart from the descriptors, so that a search touches few cache lines. */
static _Atomic(const void *) keys[ROOM]; /* NULL: free; any thread takes and frees */
static struct descriptor table[ROOM];    /* used by the thread that fills or uses the descriptor */

static uint32_t hash(const void *key)
{
    return (uint32_t)((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u >> 40);
}

static struct descriptor *find_descriptor(const void *key)
{
    for (uint32_t i = 0, at = hash(key); key && i < PROBES; i++, at++)
        if (atomic_load_explicit(&keys[at % ROOM], memory_order_acquire) == key)
            return &table[at % ROOM];
    return NULL;
}

/* Whether operations of this type have a formula. */
static bool is_product(int type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
}

static bool is_attention(int type)
{
    return type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
}

/* Whether operations of this type are tracked. Other operations multiply nothing. */
static bool is_operation(int type)
{
    switch (type) {
    case CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR:
        return true; /* their lengths are on the device, so they are unknown */
    default:
        return is_product(type) || is_attention(type) || type > NEWEST;
    }
}

/* Whether a descriptor of this type inherits the count of the one that it is made from. */
static bool inherits_count(int type)
{
    return type >= CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
           type <= CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
}

static bool has_count(int type)
{
    return inherits_count(type) || is_operation(type) ||
           type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
}

static void begin_descriptor(struct descriptor *d, int type)
{
    *d = (struct descriptor){.type = type};
    if (type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        d->tensor.type = -1;
    else
        d->work.type = BLAS_UNKNOWN;
}

void cudnn_plan_made(const void *descriptor, int type)
{
    if (!descriptor || (!has_count(type) && type != CUDNN_BACKEND_TENSOR_DESCRIPTOR))
        return;                  /* others are made for each execution */
    cudnn_plan_gone(descriptor); /* an earlier one at this address, whose end was not seen */
    for (uint32_t i = 0, at = hash(descriptor); i < PROBES; i++, at++) {
        const void *there = NULL;
        if (!atomic_load_explicit(&keys[at % ROOM], memory_order_relaxed) &&
            atomic_compare_exchange_strong(&keys[at % ROOM], &there, descriptor)) {
            begin_descriptor(&table[at % ROOM], type);
            return;
        }
    }
}

void cudnn_plan_gone(const void *descriptor)
{
    struct descriptor *d = find_descriptor(descriptor);
    if (d)
        atomic_store_explicit(&keys[d - table], NULL, memory_order_release);
}

/* ---- attributes ---- */

static void set_tensor(struct tensor *t, int name, int64_t n, const void *values)
{
    switch (name) {
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
        memcpy(&t->type, values, sizeof t->type);
        break;
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
        t->dims = n > 0 && n <= DIMS ? (int)n : 0;
        memcpy(t->size, values, (size_t)t->dims * sizeof *t->size);
        break;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
        memcpy(&t->virtual, values, sizeof t->virtual);
        break;
    case CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC:
        t->ragged = true;
        break;
    default:
        break;
    }
}

/* The operand that an attribute sets; OPERANDS: none. RIGHT is the filter, RESULT the output or its
 * gradient. */
static enum operand operand_of(int name)
{
    switch (name) {
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X:
    case CUDNN_ATTR_OPERATION_MATMUL_ADESC:
    case CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC:
    case CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC:
        return LEFT;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
    case CUDNN_ATTR_OPERATION_MATMUL_BDESC:
    case CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC:
    case CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC:
        return RIGHT;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY:
    case CUDNN_ATTR_OPERATION_MATMUL_CDESC:
    case CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC:
    case CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC:
        return RESULT;
    case CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC:
    case CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC:
        return VALUES;
    default:
        return OPERANDS;
    }
}

static bool within(int name, int first, int last)
{
    return name >= first && name <= last;
}

/* Whether an attention still has its tensors' sizes with this attribute. True for scale, dropout,
 * sink, masks as graphs of their own and results of the softmax. False for sequence lengths, page
 * tables, block masks and unknown attributes. */
static bool keeps_sizes(int name)
{
    return within(name, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC,
                  CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC) ||
           within(name, CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
                  CUDNN_ATTR_OPERATION_SDPA_FWD_UNFUSE_FMA) ||
           within(name, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC,
                  CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC) ||
           within(name, CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,
                  CUDNN_ATTR_OPERATION_SDPA_BWD_DSINK_DESC) ||
           within(name, CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH,
                  CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID);
}

static void set_operation(struct descriptor *d, int name, const void *const *values)
{
    enum operand o = operand_of(name);
    if (o < OPERANDS)
        d->operands[o] = values[0];
    if (is_attention(d->type))
        d->overridden |= !keeps_sizes(name);
    else
        d->overridden |= within(name, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                                CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
}

/* Adds the work of an operation of a graph. Untracked operations multiply nothing. */
static void add_operation(struct blas_work *sum, const void *operation)
{
    const struct descriptor *d = find_descriptor(operation);
    if (!d || sum->type == BLAS_UNKNOWN)
        return;
    if (!has_count(d->type) || d->work.type == BLAS_UNKNOWN) {
        sum->type = BLAS_UNKNOWN;
        return;
    }
    /* of several types, that of the largest part counts */
    if (sum->type == BLAS_NONE || d->work.flops > sum->flops)
        sum->type = d->work.type;
    sum->flops += d->work.flops;
    sum->bytes += d->work.bytes;
}

static void set_graph(struct descriptor *d, int name, int64_t n, const void *values)
{
    bool overridden = false;
    if (name == CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED) {
        memcpy(&overridden, values, sizeof overridden);
        d->overridden |= overridden;
    }
    if (name != CUDNN_ATTR_OPERATIONGRAPH_OPS)
        return;
    d->work = (struct blas_work){.type = BLAS_NONE};
    for (int64_t i = 0; i < n; i++)
        add_operation(&d->work, ((const void *const *)values)[i]);
}

/* Passes the count on: `to` is made from `from`, or was filled with a part of it. */
static void pass_count(struct descriptor *to, const struct descriptor *from)
{
    if (!to || !from || !inherits_count(to->type) || is_operation(from->type) ||
        !has_count(from->type))
        return;
    to->work = from->work;
    if (from->overridden)
        to->work.type = BLAS_UNKNOWN;
}

void cudnn_plan_set(const void *descriptor, int name, int64_t n, const void *values)
{
    struct descriptor *d = n > 0 && values ? find_descriptor(descriptor) : NULL;
    if (!d)
        return;
    if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
        set_tensor(&d->tensor, name, n, values);
    } else if (is_operation(d->type)) {
        set_operation(d, name, values);
    } else if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
        set_graph(d, name, n, values);
    } else if (name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH ||
               name == CUDNN_ATTR_ENGINE_OPERATION_GRAPH || name == CUDNN_ATTR_ENGINECFG_ENGINE ||
               name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        d->config = ((const void *const *)values)[0];
        pass_count(d, find_descriptor(d->config));
    }
}

void cudnn_plan_got(const void *descriptor, int type, int64_t n, const void *values)
{
    const struct descriptor *d =
        values && type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? find_descriptor(descriptor) : NULL;
    for (int64_t i = 0; d && i < n; i++)
        pass_count(find_descriptor(((const void *const *)values)[i]), d);
}

/* ---- work of an operation ---- */

static int64_t volume(const struct tensor *t)
{
    double product = t->dims ? 1 : -1;
    int64_t n = 1;
    for (int i = 0; i < t->dims && product >= 0; i++) {
        product *= (double)t->size[i];
        n = product >= 0 && product < 1e18 ? n * t->size[i] : -1;
    }
    return product >= 0 && product < 1e18 ? n : -1;
}

static const struct tensor *tensor_of(const struct descriptor *d, enum operand o)
{
    const struct descriptor *t = find_descriptor(d->operands[o]);
    bool whole = t && t->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && volume(&t->tensor) >= 0 &&
                 !t->tensor.ragged;
    return whole ? &t->tensor : NULL;
}

/* Adds the bytes of a tensor in memory. */
static void move(struct blas_work *w, const struct tensor *t)
{
    if (!t->virtual && cudnn_type(t->type) != BLAS_UNKNOWN)
        blas_move(w, volume(t), cudnn_type(t->type));
}

static void count_product(struct descriptor *d)
{
    const struct tensor *t[VALUES];
    for (enum operand o = LEFT; o < VALUES; o++)
        if (!(t[o] = tensor_of(d, o)))
            return;
    /* products per element of the result: the left matrix's last size, or the weights of one output
     * channel */
    bool matmul = d->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    int64_t channels = t[RIGHT]->size[0];
    if (!matmul && channels <= 0)
        return;
    int64_t depth = matmul ? t[LEFT]->size[t[LEFT]->dims - 1] : volume(t[RIGHT]) / channels;
    struct blas_work w = {.type = BLAS_UNKNOWN};
    /* a virtual tensor may have another type; the arithmetic units get the tensor in memory */
    int type = t[LEFT]->virtual ? t[RIGHT]->type : t[LEFT]->type;
    blas_gemm(&w, volume(t[RESULT]), 1, depth, 1, cudnn_type(type));
    w.bytes = 0;
    for (enum operand o = LEFT; o < VALUES && w.type != BLAS_UNKNOWN; o++)
        move(&w, t[o]);
    d->work = w;
}

/* Scores of all queries and keys, and their product with the values. Gradients: the scores again,
 * and four products, as in flops.def. Sizes are [batch, heads, sequence, head dimension]; one head
 * of keys may serve several of queries. */
static void count_attention(struct descriptor *d)
{
    const struct tensor *t[OPERANDS];
    for (enum operand o = LEFT; o < OPERANDS; o++)
        if (!(t[o] = tensor_of(d, o)) || t[o]->dims != 4)
            return;
    bool back = d->type == CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
    const int64_t *q = t[LEFT]->size, *v = t[VALUES]->size;
    int64_t heads = volume(&(struct tensor){.size = {q[0], q[1]}, .dims = 2});
    struct blas_work w = {.type = BLAS_UNKNOWN};
    blas_gemm(&w, q[2], t[RIGHT]->size[2], (back ? 3 : 1) * q[3] + (back ? 2 : 1) * v[3], heads,
              cudnn_type(t[LEFT]->type));
    w.bytes = 0;
    for (enum operand o = LEFT; o < OPERANDS && w.type != BLAS_UNKNOWN; o++)
        move(&w, t[o]);
    w.bytes *= back ? 2 : 1; /* and the gradient of each */
    d->work = w;
}

/* ---- arithmetic units of a plan ---- */

/* Functions of the library that describe an engine. */
struct engine_calls {
    int (*make)(int type, void **made);
    int (*get)(const void *, int name, int type, int64_t room, int64_t *n, void *values);
    int (*destroy)(void *);
};

/* The type in which the configuration's engine multiplies single precision. engine: a descriptor to
 * fill. */
static uint32_t units_of(const struct engine_calls *a, const void *config, void *engine)
{
    int notes[NOTES];
    int64_t n = 0;
    bool tensor_core = false, converted = false;
    if (a->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
               &engine) != 0 ||
        a->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &n,
               notes) != 0)
        return BLAS_FLOAT;
    for (int64_t i = 0; i < n && i < NOTES; i++) {
        tensor_core |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        converted |= notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    }
    return tensor_core && converted ? BLAS_HALF : tensor_core ? BLAS_TF32 : BLAS_FLOAT;
}

/* Sets a plan's type. Tensor cores take single precision as TF32, or as half precision if the
 * engine notes that it converts inputs down. PyTorch reads these notes the same way
 * (aten/src/ATen/native/cudnn/Conv_v8.cpp); cuDNN 9.24 has them for compute capability 7.5 to 10.
 * The program does not see the descriptor made here. */
static void ask_engine(struct descriptor *plan, void *finalize)
{
    const struct descriptor *config = find_descriptor(plan->config);
    struct engine_calls a;
    void *engine = NULL;
    if (!finalize || !config || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return;
    *(void **)&a.make = blas_sibling(finalize, "cudnnBackendCreateDescriptor");
    *(void **)&a.get = blas_sibling(finalize, "cudnnBackendGetAttribute");
    *(void **)&a.destroy = blas_sibling(finalize, "cudnnBackendDestroyDescriptor");
    if (!a.make || !a.get || !a.destroy || a.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != 0)
        return;
    plan->work.type = units_of(&a, plan->config, engine);
    a.destroy(engine);
}

void cudnn_plan_whole(const void *descriptor, void *finalize)
{
    int saved = errno;
    struct descriptor *d = find_descriptor(descriptor);
    if (d && is_product(d->type) && !d->overridden)
        count_product(d);
    else if (d && is_attention(d->type) && !d->overridden)
        count_attention(d);
    else if (d && d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && d->work.type == BLAS_FLOAT)
        ask_engine(d, finalize);
    errno = saved;
}

void cudnn_plan_work(struct blas_work *w, const void *plan)
{
    const struct descriptor *d = find_descriptor(plan);
    if (d && d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        *w = d->work;
}
