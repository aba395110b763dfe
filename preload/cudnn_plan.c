/* SPDX-License-Identifier: Apache-2.0 */
/* See cudnn_plan.h. */
#include "preload/cudnn_plan.h"

#include <string.h>

#include "preload/cudnn.h"

#define ROOM   16384u /* a power of two */
#define PROBES 64u    /* places from the hash on where a descriptor may stand */
#define DIMS   8      /* CUDNN_DIM_MAX */
#define NEWEST                                                                                     \
    CUDNN_BACKEND_OPERATION_ROPE_BWD_DESCRIPTOR /* of which it is known whether it multiplies */

/* What an operation multiplies with what. */
enum operand { LEFT, RIGHT, RESULT, OPERANDS };

struct tensor {
    int64_t size[DIMS];
    int dims;
    int type;     /* cudnnDataType_t, -1 = not set */
    bool virtual; /* it never is in memory */
    bool ragged;  /* its sizes are only the largest ones */
};

struct descriptor {
    int type; /* cudnnBackendDescriptorType_t */
    union {
        struct tensor tensor;
        struct {
            const void *operands[OPERANDS]; /* of an operation that is being filled */
            bool overridden;                /* its sizes are set when it runs */
            struct blas_work work; /* of one execution; type BLAS_UNKNOWN until it is known */
        };
    };
};

/* Apart from the keys, so that a search stays in few cache lines. */
static _Atomic(const void *) keys[ROOM]; /* NULL: free; any thread takes and gives back */
static struct descriptor table[ROOM];    /* of the thread that fills or uses the descriptor */

static uint32_t hash(const void *key)
{
    return (uint32_t)((uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u >> 40);
}

static struct descriptor *find(const void *key)
{
    for (uint32_t i = 0, at = hash(key); key && i < PROBES; i++, at++)
        if (atomic_load_explicit(&keys[at % ROOM], memory_order_acquire) == key)
            return &table[at % ROOM];
    return NULL;
}

/* An operation that can be counted. */
static bool is_product(int type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
}

/* One that is kept: the others multiply nothing. */
static bool is_operation(int type)
{
    switch (type) {
    case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_BWD_DESCRIPTOR:
        return true; /* by lengths that only the device knows */
    default:
        return is_product(type) || type > NEWEST;
    }
}

/* One that has the count of what it is made from. */
static bool is_made_from(int type)
{
    return type >= CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
           type <= CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
}

static bool has_count(int type)
{
    return is_made_from(type) || is_operation(type) ||
           type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
}

static void begin(struct descriptor *d, int type)
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
        return;                  /* the others come and go with each execution */
    cudnn_plan_gone(descriptor); /* one of this address that went unseen */
    for (uint32_t i = 0, at = hash(descriptor); i < PROBES; i++, at++) {
        const void *there = NULL;
        if (atomic_load_explicit(&keys[at % ROOM], memory_order_relaxed) == NULL &&
            atomic_compare_exchange_strong(&keys[at % ROOM], &there, descriptor)) {
            begin(&table[at % ROOM], type);
            return;
        }
    }
}

void cudnn_plan_gone(const void *descriptor)
{
    struct descriptor *d = find(descriptor);
    if (d)
        atomic_store_explicit(&keys[d - table], NULL, memory_order_release);
}

/* ---- what is set ---- */

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

/* The operand that an attribute of an operation is; OPERANDS: none. RIGHT is the filter, RESULT the output or its gradient. */
static enum operand operand_of(int name)
{
    switch (name) {
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X:
    case CUDNN_ATTR_OPERATION_MATMUL_ADESC:
        return LEFT;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
    case CUDNN_ATTR_OPERATION_MATMUL_BDESC:
        return RIGHT;
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY:
    case CUDNN_ATTR_OPERATION_MATMUL_CDESC:
        return RESULT;
    default:
        return OPERANDS;
    }
}

static void set_operation(struct descriptor *d, int name, const void *const *values)
{
    enum operand o = operand_of(name);
    if (o < OPERANDS)
        d->operands[o] = values[0];
    d->overridden |= name >= CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC &&
                     name <= CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC;
}

/* Adds what an operation of a graph does. Those that are not kept multiply nothing. */
static void add_operation(struct blas_work *sum, const void *operation)
{
    const struct descriptor *d = find(operation);
    if (!d || sum->type == BLAS_UNKNOWN)
        return;
    if (!has_count(d->type) || d->work.type == BLAS_UNKNOWN) {
        sum->type = BLAS_UNKNOWN;
        return;
    }
    /* several kinds in one graph: that of the larger part */
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

/* `to` is made from `from`, or was filled with what belongs to it. */
static void hand_on(struct descriptor *to, const struct descriptor *from)
{
    if (!to || !from || !is_made_from(to->type) || is_operation(from->type) ||
        !has_count(from->type))
        return;
    to->work = from->work;
    if (from->overridden)
        to->work.type = BLAS_UNKNOWN;
}

void cudnn_plan_set(const void *descriptor, int name, int64_t n, const void *values)
{
    struct descriptor *d = n > 0 && values ? find(descriptor) : NULL;
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
        hand_on(d, find(((const void *const *)values)[0]));
    }
}

void cudnn_plan_got(const void *descriptor, int type, int64_t n, const void *values)
{
    const struct descriptor *d =
        values && type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? find(descriptor) : NULL;
    for (int64_t i = 0; d && i < n; i++)
        hand_on(find(((const void *const *)values)[i]), d);
}

/* ---- what an operation does ---- */

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
    const struct descriptor *t = find(d->operands[o]);
    bool whole = t && t->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && volume(&t->tensor) >= 0 &&
                 !t->tensor.ragged;
    return whole ? &t->tensor : NULL;
}

void cudnn_plan_whole(const void *descriptor)
{
    struct descriptor *d = find(descriptor);
    if (!d || !is_product(d->type) || d->overridden)
        return;
    const struct tensor *t[OPERANDS];
    for (enum operand o = LEFT; o < OPERANDS; o++)
        if (!(t[o] = tensor_of(d, o)))
            return;
    /* products for each element of the result: along the left matrix' last side, or over the weights of one output channel */
    bool matmul = d->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    int64_t channels = t[RIGHT]->size[0];
    if (!matmul && channels <= 0)
        return;
    int64_t depth = matmul ? t[LEFT]->size[t[LEFT]->dims - 1] : volume(t[RIGHT]) / channels;
    struct blas_work w = {.type = BLAS_UNKNOWN};
    /* what is virtual may be of another type; what is in memory is what the units get */
    int type = t[LEFT]->virtual ? t[RIGHT]->type : t[LEFT]->type;
    blas_gemm(&w, volume(t[RESULT]), 1, depth, 1, cudnn_type(type));
    w.bytes = 0;
    for (enum operand o = LEFT; o < OPERANDS && w.type != BLAS_UNKNOWN; o++)
        if (!t[o]->virtual && cudnn_type(t[o]->type) != BLAS_UNKNOWN)
            blas_move(&w, volume(t[o]), cudnn_type(t[o]->type));
    d->work = w;
}

void cudnn_plan_work(struct blas_work *w, const void *plan)
{
    const struct descriptor *d = find(plan);
    if (d && d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        *w = d->work;
}
