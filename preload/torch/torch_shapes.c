/* SPDX-License-Identifier: Apache-2.0 */
/* Operator inputs to shapes and values, read by layout as Kineto encodes them (rules in
 * torch_layout.h). Application threads, inside the operator's start callback: the inputs live as
 * long as the call, so no reference is taken. */
#include "preload/torch/torch.h"
#include "preload/core/core.h"

#include <string.h>

#include "writer/writer.h"

#define LIST_MAX 30u /* Kineto writes no longer list */

static const char *const dtype_names[] = {
#define TORCH_DTYPE(value, name, text) text,
#include "preload/core/torch_layout.def"
#undef TORCH_DTYPE
};

const char *const *torch_dtype_names(unsigned *count)
{
    *count = sizeof dtype_names / sizeof dtype_names[0];
    return dtype_names;
}

/* Where the shapes go. */
struct out {
    uint8_t *at, *end;
};

static inline bool room(const struct out *o, size_t bytes)
{
    return (size_t)(o->end - o->at) >= bytes;
}

/* Most tensors have few dimensions: a loop, where memcpy() would be a call. */
static inline uint8_t *put_numbers(uint8_t *to, const int64_t *from, uint64_t n)
{
    for (const int64_t *end = from + n; from < end; from++, to += sizeof *from) {
        memcpy(to, from, sizeof *from);
        __asm__ volatile(""); /* else compilers see a memcpy() */
    }
    return to;
}

/* Writes dtype, number of dimensions, sizes and, where it has them, strides; false when there is no
 * room. */
static inline bool put_tensor(struct out *o, const void *tensor)
{
    const struct torch_layout *l = torch_api.layout;
    uint64_t dims;
    const int64_t *sizes = value_sizes(tensor, &dims);
    bool strided = value_is_strided(tensor);
    if (!room(o, 2 + 2 * dims * sizeof *sizes))
        return false;
    uint8_t *to = o->at;
    to[0] = ((const uint8_t *)tensor)[l->ti_dtype];
    to[1] = (uint8_t)(dims | (strided ? SHAPE_STRIDES : 0));
    to = put_numbers(to + 2, sizes, dims);
    if (strided)
        to = put_numbers(to, sizes + (dims > l->ti_inline_max ? dims : l->ti_inline_max), dims);
    o->at = to;
    return true;
}

static inline bool put_tag(struct out *o, enum shape_tag tag)
{
    if (!room(o, 1))
        return false;
    *o->at++ = (uint8_t)tag;
    return true;
}

static inline bool put_number(struct out *o, enum shape_tag tag, const void *value, size_t bytes)
{
    if (!room(o, 1 + bytes))
        return false;
    *o->at = (uint8_t)tag;
    memcpy(o->at + 1, value, bytes);
    o->at += 1 + bytes;
    return true;
}

/* Of what Kineto calls a scalar. Values that are not known yet (SymInt) would have to be asked
 * for. */
static inline bool put_scalar(struct out *o, uint32_t tag, const void *value)
{
    const struct torch_layout *l = torch_api.layout;
    const char *payload = (const char *)value + l->iv_payload;
    if (tag == l->tag_int)
        return put_number(o, SHAPE_INT, payload, sizeof(int64_t));
    if (tag == l->tag_bool)
        return put_tag(o, *payload ? SHAPE_TRUE : SHAPE_FALSE);
    if (tag == l->tag_double)
        return put_number(o, SHAPE_REAL, payload, sizeof(double));
    const char *holder = tag == l->tag_complex_double ? value_pointer(value, l->iv_payload) : NULL;
    if (!holder)
        return put_tag(o, SHAPE_SCALAR);
    /* behind the same head as a list's elements, but aligned as c10::complex is */
    return put_number(o, SHAPE_COMPLEX, holder + ((l->list_begin + 15u) & ~15u),
                      2 * sizeof(double));
}

static bool put_tensor_list(struct out *o, const char *first, uint64_t n)
{
    const struct torch_layout *l = torch_api.layout;
    for (uint64_t i = 0; i < n && n <= LIST_MAX; i++)
        if (!value_has_sizes(value_pointer(first + i * l->iv_size, l->iv_payload)))
            return put_tag(o, SHAPE_OTHER);
    if (!room(o, 2))
        return false;
    *o->at++ = SHAPE_LIST;
    *o->at++ = (uint8_t)(n <= LIST_MAX ? n : 0);
    for (uint64_t i = 0; i < n && n <= LIST_MAX; i++)
        if (!put_tensor(o, value_pointer(first + i * l->iv_size, l->iv_payload)))
            return false;
    return true;
}

static bool put_scalar_list(struct out *o, const char *first, uint64_t n)
{
    const struct torch_layout *l = torch_api.layout;
    if (!room(o, 2))
        return false;
    *o->at++ = SHAPE_SCALAR_LIST;
    *o->at++ = (uint8_t)n;
    for (uint64_t i = 0; i < n; i++) {
        const char *value = first + i * l->iv_size;
        uint32_t tag = value_tag(value);
        if (!(value_is_scalar(tag) ? put_scalar(o, tag, value) : put_tag(o, SHAPE_OTHER)))
            return false;
    }
    return true;
}

static __attribute__((noinline)) bool put_list(struct out *o, const void *list)
{
    const struct torch_layout *l = torch_api.layout;
    const char *first = value_pointer(list, l->list_begin);
    uint64_t n = (uint64_t)((const char *)value_pointer(list, l->list_end) - first) / l->iv_size;
    const void *type = value_pointer(list, l->list_element_type);
    uint32_t kind = 0;
    if (type)
        memcpy(&kind, (const char *)type + l->type_kind, sizeof kind);
    if (type && kind == l->kind_tensor)
        return put_tensor_list(o, first, n);
    bool scalars = n == 0 || (n <= LIST_MAX && value_is_scalar(value_tag(first)));
    return scalars ? put_scalar_list(o, first, n) : put_tag(o, SHAPE_OTHER);
}

static inline bool put_value(struct out *o, const void *value)
{
    const struct torch_layout *l = torch_api.layout;
    uint32_t tag = value_tag(value);
    const void *payload = value_pointer(value, l->iv_payload);
    if (tag == l->tag_tensor)
        return value_has_sizes(payload) ? put_tag(o, SHAPE_TENSOR) && put_tensor(o, payload)
                                        : put_tag(o, SHAPE_OTHER);
    if (tag == l->tag_generic_list && payload)
        return put_list(o, payload);
    return value_is_scalar(tag) ? put_scalar(o, tag, value) : put_tag(o, SHAPE_OTHER);
}

uint32_t torch_shapes(const void *function, uint8_t *out, uint32_t size)
{
    const struct torch_layout *l = torch_api.layout;
    struct out o = {out, out + size};
    uint64_t n;
    const char *value = value_inputs(function, &n);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *before = o.at;
        if (!put_value(&o, value + i * l->iv_size)) {
            o.at = before;
            break;
        }
    }
    return (uint32_t)(o.at - out);
}
