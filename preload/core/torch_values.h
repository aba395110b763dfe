/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an operator's inputs (c10::IValue, c10::TensorImpl) by torch_layout.h's offsets: what
 * shapes and FLOPs are made from. In the operator's start callback only: the inputs live as long as
 * the call. No reference is taken, nothing is written. */
#ifndef PRELOAD_CORE_TORCH_VALUES_H
#define PRELOAD_CORE_TORCH_VALUES_H

#include <string.h>

#include "preload/core/torch_api.h"

#define DIMS_MAX 64u /* torch's own limit */

/* The 8 bytes at an offset of an object. */
static inline uint64_t value_word(const void *object, uint16_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

/* The same as an address. */
static inline const void *value_pointer(const void *object, uint16_t offset)
{
    return (const void *)(uintptr_t)value_word(object, offset);
}

/* Which kind of c10::IValue it is. */
static inline uint32_t value_tag(const void *value)
{
    uint32_t tag;
    memcpy(&tag, (const char *)value + torch_api.layout->iv_tag, sizeof tag);
    return tag;
}

/* A tensor whose sizes can be told; nested and symbolic ones cannot, as in Kineto. */
static inline bool value_has_sizes(const void *tensor)
{
    const struct torch_layout *l = torch_api.layout;
    if (!tensor || tensor == torch_api.undefined_tensor)
        return false;
    uint8_t flags = ((const uint8_t *)tensor)[l->ti_flags];
    uint16_t dtype;
    memcpy(&dtype, (const char *)tensor + l->ti_dtype, sizeof dtype);
    return !(flags & l->mask_symbolic) &&
           !(value_word(tensor, l->ti_key_set) >> l->key_nested & 1) &&
           dtype < l->dtype_undefined && value_word(tensor, l->ti_ndim) <= DIMS_MAX;
}

/* The keys of layouts without strides: mkldnn's and those of sparse tensors stand in a row, before
 * that of nested tensors. */
static inline uint64_t value_strideless_keys(const struct torch_layout *l)
{
    return (UINT64_C(1) << l->key_nested) - (UINT64_C(1) << (l->key_sparse - 1));
}

/* Whether its layout has strides: not sparse (COO, CSR) and not mkldnn's. */
static inline bool value_is_strided(const void *tensor)
{
    const struct torch_layout *l = torch_api.layout;
    return !(value_word(tensor, l->ti_key_set) & value_strideless_keys(l));
}

/* Whether the tag is one of those that Kineto calls Scalar. */
static inline bool value_is_scalar(uint32_t tag)
{
    return tag < 16 && (torch_api.layout->scalar_tags >> tag & 1);
}

/* The tensor's number of dimensions in *n and its sizes; only if value_has_sizes(). */
static inline const int64_t *value_sizes(const void *tensor, uint64_t *n)
{
    const struct torch_layout *l = torch_api.layout;
    *n = value_word(tensor, l->ti_ndim);
    return *n > l->ti_inline_max ? value_pointer(tensor, l->ti_sizes)
                                 : (const int64_t *)((const char *)tensor + l->ti_sizes);
}

/* The operator's inputs: the first c10::IValue, and how many there are. */
static inline const char *value_inputs(const void *function, uint64_t *n)
{
    *n = value_word(function, torch_api.layout->rf_inputs_size);
    return value_pointer(function, torch_api.layout->rf_inputs_data);
}

#endif
