/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes operator inputs as shapes and values, read by layout, by Kineto's rules (torch_layout.h).
 * Application threads, in the operator's start callback: the inputs live longer, so no reference is
 * taken. */
#include "preload/torch/torch.h"
#include "preload/core/core.h"

#include <string.h>

#include "writer/writer.h"

#define LIST_MAX 30u /* elements; Kineto writes no longer list */

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

/* Each put_ function writes at `to` and returns the position after its bytes. NULL: they do not fit
 * before `end`. */
#define HOT static inline __attribute__((always_inline))

HOT bool room(const uint8_t *to, const uint8_t *end, size_t bytes)
{
    return (size_t)(end - to) >= bytes;
}

HOT uint8_t *put_word(uint8_t *to, int64_t word)
{
    memcpy(to, &word, sizeof word);
    return to + sizeof word;
}

/* Writes dtype, number of dimensions, sizes and, for a strided tensor, strides. */
HOT uint8_t *put_tensor(const struct torch_layout *l, uint8_t *to, const uint8_t *end,
                        const void *tensor)
{
    uint64_t dims;
    const int64_t *sizes = value_sizes(l, tensor, &dims);
    bool strided = value_is_strided(l, tensor);
    if (!room(to, end, 2 + 2 * dims * sizeof *sizes))
        return NULL;
    to[0] = ((const uint8_t *)tensor)[l->ti_dtype];
    to[1] = (uint8_t)(dims | (strided ? SHAPE_STRIDES : 0));
    to += 2;
    if (__builtin_expect(!strided, 0)) {
        for (uint64_t d = 0; d < dims; d++)
            to = put_word(to, sizes[d]);
        return to;
    }
    const int64_t *strides = sizes + (dims > l->ti_inline_max ? dims : l->ti_inline_max);
    for (uint64_t d = 0; d < dims; d++) {
        put_word(to + dims * sizeof *strides, strides[d]);
        to = put_word(to, sizes[d]);
    }
    return to + dims * sizeof *strides;
}

HOT uint8_t *put_tag(uint8_t *to, const uint8_t *end, enum shape_tag tag)
{
    if (!room(to, end, 1))
        return NULL;
    *to = (uint8_t)tag;
    return to + 1;
}

HOT uint8_t *put_number(uint8_t *to, const uint8_t *end, enum shape_tag tag, const void *value,
                        size_t bytes)
{
    if (!room(to, end, 1 + bytes))
        return NULL;
    *to = (uint8_t)tag;
    memcpy(to + 1, value, bytes);
    return to + 1 + bytes;
}

/* Writes what Kineto calls a scalar. Only reading a symbolic number (SymInt) would need a call, so
 * its value is left out. */
HOT uint8_t *put_scalar(const struct torch_layout *l, uint8_t *to, const uint8_t *end, uint32_t tag,
                        const void *value)
{
    const char *payload = (const char *)value + l->iv_payload;
    if (tag == l->tag_int)
        return put_number(to, end, SHAPE_INT, payload, sizeof(int64_t));
    if (tag == l->tag_bool)
        return put_tag(to, end, *payload ? SHAPE_TRUE : SHAPE_FALSE);
    if (tag == l->tag_double)
        return put_number(to, end, SHAPE_REAL, payload, sizeof(double));
    const char *holder = tag == l->tag_complex_double ? value_pointer(value, l->iv_payload) : NULL;
    if (!holder)
        return put_tag(to, end, SHAPE_SCALAR);
    /* after the same header as a list's elements, but aligned as c10::complex */
    return put_number(to, end, SHAPE_COMPLEX, holder + ((l->list_begin + 15u) & ~15u),
                      2 * sizeof(double));
}

static uint8_t *put_tensor_list(const struct torch_layout *l, uint8_t *to, const uint8_t *end,
                                const char *first, uint64_t n)
{
    for (uint64_t i = 0; i < n && n <= LIST_MAX; i++)
        if (!value_has_sizes(l, value_pointer(first + i * l->iv_size, l->iv_payload)))
            return put_tag(to, end, SHAPE_OTHER);
    if (!room(to, end, 2))
        return NULL;
    *to++ = SHAPE_LIST;
    *to++ = (uint8_t)(n <= LIST_MAX ? n : 0);
    for (uint64_t i = 0; i < n && n <= LIST_MAX && to; i++)
        to = put_tensor(l, to, end, value_pointer(first + i * l->iv_size, l->iv_payload));
    return to;
}

static uint8_t *put_scalar_list(const struct torch_layout *l, uint8_t *to, const uint8_t *end,
                                const char *first, uint64_t n)
{
    if (!room(to, end, 2))
        return NULL;
    *to++ = SHAPE_SCALAR_LIST;
    *to++ = (uint8_t)n;
    for (uint64_t i = 0; i < n && to; i++) {
        const char *value = first + i * l->iv_size;
        uint32_t tag = value_tag(l, value);
        to = value_is_scalar(l, tag) ? put_scalar(l, to, end, tag, value)
                                     : put_tag(to, end, SHAPE_OTHER);
    }
    return to;
}

static __attribute__((noinline)) uint8_t *put_list(const struct torch_layout *l, uint8_t *to,
                                                   const uint8_t *end, const void *list)
{
    const char *first = value_pointer(list, l->list_begin);
    uint64_t n = (uint64_t)((const char *)value_pointer(list, l->list_end) - first) / l->iv_size;
    const void *type = value_pointer(list, l->list_element_type);
    uint32_t kind = 0;
    if (type)
        memcpy(&kind, (const char *)type + l->type_kind, sizeof kind);
    if (type && kind == l->kind_tensor)
        return put_tensor_list(l, to, end, first, n);
    bool scalars = n == 0 || (n <= LIST_MAX && value_is_scalar(l, value_tag(l, first)));
    return scalars ? put_scalar_list(l, to, end, first, n) : put_tag(to, end, SHAPE_OTHER);
}

HOT uint8_t *put_value(const struct torch_layout *l, uint8_t *to, const uint8_t *end,
                       const void *value)
{
    uint32_t tag = value_tag(l, value);
    const void *payload = value_pointer(value, l->iv_payload);
    if (tag == l->tag_tensor && value_has_sizes(l, payload)) {
        to = put_tag(to, end, SHAPE_TENSOR);
        return to ? put_tensor(l, to, end, payload) : NULL;
    }
    if (tag == l->tag_generic_list && payload)
        return put_list(l, to, end, payload);
    return value_is_scalar(l, tag) ? put_scalar(l, to, end, tag, value)
                                   : put_tag(to, end, SHAPE_OTHER);
}

uint32_t torch_shapes(const void *function, uint8_t *out, uint32_t size)
{
    const struct torch_layout *l = torch_api.layout;
    const uint8_t *end = out + size;
    uint8_t *at = out;
    uint64_t n;
    const char *value = value_inputs(function, &n);
    for (; n > 0; n--, value += l->iv_size) {
        uint8_t *behind = put_value(l, at, end, value);
        if (!behind)
            break;
        at = behind;
    }
    return (uint32_t)(at - out);
}
