/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an operator's inputs, by layout, for the formulas of flops.c: tensors, lists and numbers.
 * Arithmetic here notes values that cannot be known. Application threads; nothing is kept. */
#pragma once

#include "preload/flops/flops.h"
#include "preload/core/core.h"

#define LIST_MOST 65536u /* most tensors of a list */

/* The values of c10::ScalarType that need their own rule. */
enum {
    COMPLEX_HALF = 8,
    COMPLEX_FLOAT = 9,
    COMPLEX_DOUBLE = 10,
    FLOAT4_X2 = 45, /* an element holds two numbers */
    COMPLEX_BFLOAT16 = 46,
};

/* A tensor input. sizes: NULL if it is absent. */
struct shape {
    const int64_t *sizes;
    uint64_t dims;
    const void *tensor;
    uint64_t stored; /* entries stored, if sparse */
    uint32_t dtype;
    bool sparse;
};

/* The state of counting one call. */
struct call {
    const char *values;
    uint64_t n;
    struct flops_count *out;
    bool bad;    /* an input is missing, unknown or out of range */
    bool inside; /* the operators inside it are counted instead */
    bool sparse; /* an operand is sparse, and the formula has not handled that */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* a * b, which must fit into 63 bits; otherwise the call is bad. */
static inline uint64_t times(struct call *call, uint64_t a, uint64_t b)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product) || product > INT64_MAX)
        call->bad = true;
    return call->bad ? 0 : product;
}

/* The product of the sizes of dimensions from..dims-1. */
static inline uint64_t volume(struct call *call, const struct shape *s, uint64_t from)
{
    uint64_t n = 1;
    for (uint64_t i = from; i < s->dims; i++)
        n = times(call, n, (uint64_t)s->sizes[i]);
    return n;
}

static inline uint64_t dtype_bytes(uint32_t dtype)
{
    static const uint8_t bytes[] = {
        1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 2, 1,
        1, 1, 1, 2, 4, 8, 1, 1, 1, 1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4,
    };
    return dtype < sizeof bytes ? bytes[dtype] : 1;
}

static inline void move_bytes(struct call *call, uint64_t elements, uint32_t dtype)
{
    call->out->bytes += times(call, elements, dtype_bytes(dtype));
}

/* Dispatch keys of tensors that stand for others, such as a DTensor for this rank's part, or vmap's
 * tensor for all samples. The second variable also has the keys of sparse tensors: COO and
 * compressed (CSR, CSC, BSR, BSC). Written by flops_start(). */
extern uint64_t flops_wrapper_keys __attribute__((visibility("hidden")));
extern uint64_t flops_special_keys __attribute__((visibility("hidden")));

static inline uint64_t word_if(const void *tensor, uint16_t offset)
{
    return tensor ? value_word(tensor, offset) : 0;
}

/* Notes how many entries a sparse tensor stores. After the TensorImpl, a SparseTensorImpl has two
 * numbers, its indices and its values; a SparseCsrTensorImpl has two tensors of indices and its
 * values. `values` includes all entries of blocks and dense dimensions. */
static __attribute__((noinline, cold)) void note_sparse(struct call *call, const void *tensor,
                                                        struct shape *s)
{
    uint16_t at = torch_api.layout->ti_size, numel = torch_api.layout->ti_numel;
    const void *class = value_pointer(tensor, 0);
    bool coo = class == torch_api.coo_class;
    s->sparse = call->sparse = true;
    if (!class || (!coo && class != torch_api.compressed_class)) {
        call->bad = true; /* the tensor stands for a sparse one */
        return;
    }
    const void *first = coo ? NULL : value_pointer(tensor, at);
    const void *second = value_pointer(tensor, (uint16_t)(at + (coo ? 16 : 8)));
    const void *values = value_pointer(tensor, (uint16_t)(at + (coo ? 24 : 16)));
    s->stored = word_if(values, numel);
    call->bad |= !values || s->stored > INT64_MAX;
    call->out->bytes += times(call, 8, word_if(first, numel) + word_if(second, numel));
}

/* Reads the shape of a tensor. False: it is undefined, or has no usable shape. Unknown sizes make
 * the call bad. A tensor that stands for others leaves the call to the operators inside, because
 * its own shape is not what is computed. */
static inline bool shape_of(struct call *call, const void *tensor, struct shape *s)
{
    *s = (struct shape){.tensor = tensor};
    if (!tensor || tensor == torch_api.undefined_tensor)
        return false;
    uint64_t special = value_word(tensor, torch_api.layout->ti_key_set) & flops_special_keys;
    if (__builtin_expect(special & flops_wrapper_keys, 0)) {
        call->inside = true;
        return false;
    }
    if (!value_has_sizes(torch_api.layout, tensor)) {
        call->bad = true;
        return false;
    }
    uint16_t dtype;
    memcpy(&dtype, (const char *)tensor + torch_api.layout->ti_dtype, sizeof dtype);
    s->sizes = value_sizes(torch_api.layout, tensor, &s->dims);
    s->dtype = dtype;
    if (__builtin_expect(special != 0, 0))
        note_sparse(call, tensor, s);
    return true;
}

/* The tensor's elements; of a sparse tensor, the stored ones. */
static inline uint64_t elements_of(struct call *call, const struct shape *s)
{
    return s->sparse ? s->stored : volume(call, s, 0);
}

static inline const char *value_at(const struct call *call, int i)
{
    return i >= 0 && (uint64_t)i < call->n ? call->values + (size_t)i * torch_api.layout->iv_size
                                           : NULL;
}

/* Reads the tensor at position i. False: there is none. */
static inline bool tensor_at(struct call *call, int i, struct shape *s)
{
    const char *value = value_at(call, i);
    if (value && value_tag(torch_api.layout, value) == torch_api.layout->tag_tensor)
        return shape_of(call, value_pointer(value, torch_api.layout->iv_payload), s);
    *s = (struct shape){0};
    return false;
}

/* Sets the count's dtype and device to the tensor's. */
static inline void note_first(struct call *call, const struct shape *s)
{
    const struct torch_layout *l = torch_api.layout;
    const int8_t *tensor = s->tensor;
    call->out->dtype = s->dtype;
    call->out->device_type = tensor[l->ti_device_set] ? tensor[l->ti_device_type] : -1;
    call->out->device_index = tensor[l->ti_device_set] ? tensor[l->ti_device_index] : -1;
}

/* Reads the tensor at position i; without one, the call is bad. first: the count gets its dtype and
 * device. */
static inline bool operand(struct call *call, int i, struct shape *s, bool first)
{
    if (!tensor_at(call, i, s)) {
        call->bad = true;
        return false;
    }
    if (first)
        note_first(call, s);
    return true;
}

/* The elements of the list at position i; *n: how many. NULL: no list, or longer than LIST_MOST. */
static inline const char *list_at(const struct call *call, int i, uint64_t *n)
{
    const struct torch_layout *l = torch_api.layout;
    const char *value = value_at(call, i);
    *n = 0;
    if (!value || value_tag(torch_api.layout, value) != l->tag_generic_list)
        return NULL;
    const void *list = value_pointer(value, l->iv_payload);
    if (!list)
        return NULL;
    const char *first = value_pointer(list, l->list_begin);
    *n = (uint64_t)((const char *)value_pointer(list, l->list_end) - first) / l->iv_size;
    return *n <= LIST_MOST ? first : NULL;
}

/* Whether the value is true. If it is no bool, the call is bad. */
static inline bool truth(struct call *call, const char *value)
{
    const struct torch_layout *l = torch_api.layout;
    if (!value || value_tag(torch_api.layout, value) != l->tag_bool) {
        call->bad = true;
        return false;
    }
    return *(value + l->iv_payload) != 0;
}

/* The integer for spatial dimension d in the list at position i; a list of one integer is for all
 * dimensions. i of -1 yields `otherwise`. */
static inline int64_t int_of(struct call *call, int i, uint64_t d, int64_t otherwise)
{
    const struct torch_layout *l = torch_api.layout;
    uint64_t n;
    if (i < 0)
        return otherwise;
    const char *first = list_at(call, i, &n);
    const char *value = first && n ? first + (n == 1 ? 0 : d) * l->iv_size : NULL;
    if (!value || (n != 1 && d >= n) || value_tag(torch_api.layout, value) != l->tag_int) {
        call->bad = true;
        return otherwise;
    }
    return (int64_t)value_word(value, l->iv_payload);
}
