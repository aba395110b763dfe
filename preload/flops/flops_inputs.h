/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's inputs as the formulas of flops.c read them: tensors, lists and numbers, by layout,
 * and arithmetic that notes what cannot be told. Application threads; nothing is kept. */
#ifndef PRELOAD_FLOPS_FLOPS_INPUTS_H
#define PRELOAD_FLOPS_FLOPS_INPUTS_H

#include "preload/flops/flops.h"
#include "preload/core/core.h"

#define LIST_MOST 65536u /* tensors of one list */

/* c10::ScalarType, where it matters. */
enum {
    COMPLEX_HALF = 8,
    COMPLEX_FLOAT = 9,
    COMPLEX_DOUBLE = 10,
    FLOAT4_X2 = 45, /* two numbers in an element */
    COMPLEX_BFLOAT16 = 46,
};

/* A tensor's part of the work. sizes is NULL when it is not there. */
struct shape {
    const int64_t *sizes;
    uint64_t dims;
    const void *tensor;
    uint64_t stored; /* entries that a sparse one holds */
    uint32_t dtype;
    bool sparse;
};

/* One counting: what is read, and where it stands. */
struct call {
    const char *values;
    uint64_t n;
    struct flops_count *out;
    bool bad;    /* something could not be told */
    bool inside; /* what it calls will tell */
    bool sparse; /* an operand is, and the formula has not said that it knows what that means */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* A product that must fit into 63 bits. */
static inline uint64_t times(struct call *call, uint64_t a, uint64_t b)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product) || product > INT64_MAX)
        call->bad = true;
    return call->bad ? 0 : product;
}

/* Product of the sizes from..dims. */
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

/* Dispatch keys of tensors that only stand for others: a DTensor for this rank's part of it, one of
 * vmap's for all samples. The second also has those of sparse tensors, COO and compressed (CSR,
 * CSC, BSR, BSC). Written by flops_start(). */
extern uint64_t flops_wrapper_keys __attribute__((visibility("hidden")));
extern uint64_t flops_special_keys __attribute__((visibility("hidden")));

static inline uint64_t word_if(const void *tensor, uint16_t offset)
{
    return tensor ? value_word(tensor, offset) : 0;
}

/* How many entries the sparse tensor holds. A SparseTensorImpl has two numbers, its indices and its
 * values behind the TensorImpl; a SparseCsrTensorImpl has two tensors of indices and its values.
 * Entries of blocks, or of dense dimensions, are all in `values`. */
static __attribute__((noinline, cold)) void note_sparse(struct call *call, const void *tensor,
                                                        struct shape *s)
{
    uint16_t at = torch_api.layout->ti_size, numel = torch_api.layout->ti_numel;
    const void *class = value_pointer(tensor, 0);
    bool coo = class == torch_api.coo_class;
    s->sparse = call->sparse = true;
    if (!class || (!coo && class != torch_api.compressed_class)) {
        call->bad = true; /* it stands for one */
        return;
    }
    const void *first = coo ? NULL : value_pointer(tensor, at);
    const void *second = value_pointer(tensor, (uint16_t)(at + (coo ? 16 : 8)));
    const void *values = value_pointer(tensor, (uint16_t)(at + (coo ? 24 : 16)));
    s->stored = word_if(values, numel);
    call->bad |= !values || s->stored > INT64_MAX;
    call->out->bytes += times(call, 8, word_if(first, numel) + word_if(second, numel));
}

/* The shape of a tensor; false: undefined. One whose sizes cannot be told makes the call bad, one
 * that stands for others leaves it to the operators inside: its own shape is not what is
 * computed. */
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

/* Elements of the tensor; of a sparse one, those that it holds. */
static inline uint64_t elements_of(struct call *call, const struct shape *s)
{
    return s->sparse ? s->stored : volume(call, s, 0);
}

static inline const char *value_at(const struct call *call, int i)
{
    return i >= 0 && (uint64_t)i < call->n ? call->values + (size_t)i * torch_api.layout->iv_size
                                           : NULL;
}

/* The tensor at position i; false: there is none. */
static inline bool tensor_at(struct call *call, int i, struct shape *s)
{
    const char *value = value_at(call, i);
    if (value && value_tag(torch_api.layout, value) == torch_api.layout->tag_tensor)
        return shape_of(call, value_pointer(value, torch_api.layout->iv_payload), s);
    *s = (struct shape){0};
    return false;
}

/* What the tensor is made of is what the call is counted for. */
static inline void note_first(struct call *call, const struct shape *s)
{
    const struct torch_layout *l = torch_api.layout;
    const int8_t *tensor = s->tensor;
    call->out->dtype = s->dtype;
    call->out->device_type = tensor[l->ti_device_set] ? tensor[l->ti_device_type] : -1;
    call->out->device_index = tensor[l->ti_device_set] ? tensor[l->ti_device_index] : -1;
}

/* The tensor at position i, where there must be one; `first`: the call is counted for it. */
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

/* The elements of the list at position i, *n of them; NULL: it is no list. */
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

/* Whether the value is true; one that is no bool makes the call bad. */
static inline bool truth(struct call *call, const char *value)
{
    const struct torch_layout *l = torch_api.layout;
    if (!value || value_tag(torch_api.layout, value) != l->tag_bool) {
        call->bad = true;
        return false;
    }
    return *(value + l->iv_payload) != 0;
}

/* The number in the list at position i for spatial dimension d; a list of one is for all of them. A
 * position of -1 yields `otherwise`. */
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

#endif
