/* SPDX-License-Identifier: Apache-2.0 */
/* Operator inputs to shapes, read by layout as Kineto encodes them (rules in torch_layout.h). Application threads, inside the
 * operator's start callback: the inputs live as long as the call, so no reference is taken. */
#include "preload/torch.h"

#include <string.h>

#include "writer/writer.h"

#define DIMS_MAX 64u /* torch's own limit */
#define LIST_MAX 30u /* Kineto writes no longer list */

static const char *const dtype_names[] = {
#define TORCH_DTYPE(value, name, text) text,
#include "preload/torch_layout.def"
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

static bool room(const struct out *o, size_t bytes)
{
    return (size_t)(o->end - o->at) >= bytes;
}

static uint64_t word(const void *object, uint16_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static const void *pointer(const void *object, uint16_t offset)
{
    return (const void *)(uintptr_t)word(object, offset);
}

static uint32_t tag_of(const void *value)
{
    uint32_t tag;
    memcpy(&tag, (const char *)value + torch_api.layout->iv_tag, sizeof tag);
    return tag;
}

/* A tensor whose sizes can be told; nested and symbolic ones cannot, as in Kineto. */
static bool has_sizes(const void *tensor)
{
    const struct torch_layout *l = torch_api.layout;
    if (!tensor || tensor == torch_api.undefined_tensor)
        return false;
    uint8_t flags = ((const uint8_t *)tensor)[l->ti_flags];
    uint16_t dtype;
    memcpy(&dtype, (const char *)tensor + l->ti_dtype, sizeof dtype);
    return !(flags & l->mask_symbolic) && !(word(tensor, l->ti_key_set) >> l->key_nested & 1) &&
           dtype < l->dtype_undefined && word(tensor, l->ti_ndim) <= DIMS_MAX;
}

/* Writes dtype, number of dimensions and sizes; false when there is no room. */
static bool put_tensor(struct out *o, const void *tensor)
{
    const struct torch_layout *l = torch_api.layout;
    uint64_t dims = word(tensor, l->ti_ndim);
    if (!room(o, 2 + dims * sizeof(int64_t)))
        return false;
    const void *sizes =
        dims > l->ti_inline_max ? pointer(tensor, l->ti_sizes) : (const char *)tensor + l->ti_sizes;
    *o->at++ = ((const uint8_t *)tensor)[l->ti_dtype];
    *o->at++ = (uint8_t)dims;
    memcpy(o->at, sizes, dims * sizeof(int64_t));
    o->at += dims * sizeof(int64_t);
    return true;
}

static bool is_scalar(uint32_t tag)
{
    const struct torch_layout *l = torch_api.layout;
    return tag == l->tag_double || tag == l->tag_int || tag == l->tag_complex_double ||
           tag == l->tag_bool || tag == l->tag_sym_int || tag == l->tag_sym_float ||
           tag == l->tag_sym_bool;
}

static bool put_tag(struct out *o, enum shape_tag tag)
{
    if (!room(o, 1))
        return false;
    *o->at++ = (uint8_t)tag;
    return true;
}

static bool put_tensor_list(struct out *o, const char *first, uint64_t n)
{
    const struct torch_layout *l = torch_api.layout;
    for (uint64_t i = 0; i < n && n <= LIST_MAX; i++)
        if (!has_sizes(pointer(first + i * l->iv_size, l->iv_payload)))
            return put_tag(o, SHAPE_OTHER);
    if (!room(o, 2))
        return false;
    *o->at++ = SHAPE_LIST;
    *o->at++ = (uint8_t)(n <= LIST_MAX ? n : 0);
    for (uint64_t i = 0; i < n && n <= LIST_MAX; i++)
        if (!put_tensor(o, pointer(first + i * l->iv_size, l->iv_payload)))
            return false;
    return true;
}

static bool put_list(struct out *o, const void *list)
{
    const struct torch_layout *l = torch_api.layout;
    const char *first = pointer(list, l->list_begin);
    uint64_t n = (uint64_t)((const char *)pointer(list, l->list_end) - first) / l->iv_size;
    const void *type = pointer(list, l->list_element_type);
    uint32_t kind = 0;
    if (type)
        memcpy(&kind, (const char *)type + l->type_kind, sizeof kind);
    if (type && kind == l->kind_tensor)
        return put_tensor_list(o, first, n);
    bool scalars = n == 0 || (n <= LIST_MAX && is_scalar(tag_of(first)));
    return put_tag(o, scalars ? SHAPE_SCALAR_LIST : SHAPE_OTHER);
}

static bool put_value(struct out *o, const void *value)
{
    const struct torch_layout *l = torch_api.layout;
    uint32_t tag = tag_of(value);
    const void *payload = pointer(value, l->iv_payload);
    if (tag == l->tag_tensor)
        return has_sizes(payload) ? put_tag(o, SHAPE_TENSOR) && put_tensor(o, payload)
                                  : put_tag(o, SHAPE_OTHER);
    if (tag == l->tag_generic_list && payload)
        return put_list(o, payload);
    return put_tag(o, is_scalar(tag) ? SHAPE_SCALAR : SHAPE_OTHER);
}

uint32_t torch_shapes(const void *function, uint8_t *out, uint32_t size)
{
    const struct torch_layout *l = torch_api.layout;
    struct out o = {out, out + size};
    const char *value = pointer(function, l->rf_inputs_data);
    uint64_t n = word(function, l->rf_inputs_size);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *before = o.at;
        if (!put_value(&o, value + i * l->iv_size)) {
            o.at = before;
            break;
        }
    }
    return (uint32_t)(o.at - out);
}
