/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an operator's inputs (c10::IValue, c10::TensorImpl) by the offsets of torch_layout.h. Only
 * in the operator's start callback: inputs live as long as the call. Takes no reference, writes
 * nothing. `l` is torch_api.layout, which the caller reads once. */
#pragma once

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

/* The pointer at an offset of an object. */
static inline const void *value_pointer(const void *object, uint16_t offset)
{
    return (const void *)(uintptr_t)value_word(object, offset);
}

/* The tag of a c10::IValue. */
static inline uint32_t value_tag(const struct torch_layout *l, const void *value)
{
    uint32_t tag;
    memcpy(&tag, (const char *)value + l->iv_tag, sizeof tag);
    return tag;
}

/* Whether a tensor has numeric sizes; nested and symbolic tensors do not, as in Kineto. */
static inline bool value_has_sizes(const struct torch_layout *l, const void *tensor)
{
    if (!tensor || tensor == torch_api.undefined_tensor)
        return false;
    uint8_t flags = ((const uint8_t *)tensor)[l->ti_flags];
    uint16_t dtype;
    memcpy(&dtype, (const char *)tensor + l->ti_dtype, sizeof dtype);
    return !(flags & l->mask_symbolic) &&
           !(value_word(tensor, l->ti_key_set) >> l->key_nested & 1) &&
           dtype < l->dtype_undefined && value_word(tensor, l->ti_ndim) <= DIMS_MAX;
}

/* Keys of layouts without strides: mkldnn and sparse ones, which are adjacent and precede the
 * nested key. */
static inline uint64_t value_strideless_keys(const struct torch_layout *l)
{
    return (UINT64_C(1) << l->key_nested) - (UINT64_C(1) << (l->key_sparse - 1));
}

/* Whether the layout has strides: neither sparse (COO, CSR) nor mkldnn. */
static inline bool value_is_strided(const struct torch_layout *l, const void *tensor)
{
    return !(value_word(tensor, l->ti_key_set) & value_strideless_keys(l));
}

/* Whether Kineto calls this tag Scalar. */
static inline bool value_is_scalar(const struct torch_layout *l, uint32_t tag)
{
    return tag < 16 && (l->scalar_tags >> tag & 1);
}

/* The tensor's sizes; *n is the number of dimensions. Only if value_has_sizes(). */
static inline const int64_t *value_sizes(const struct torch_layout *l, const void *tensor,
                                         uint64_t *n)
{
    *n = value_word(tensor, l->ti_ndim);
    return *n > l->ti_inline_max ? value_pointer(tensor, l->ti_sizes)
                                 : (const int64_t *)((const char *)tensor + l->ti_sizes);
}

/* The operator's first input (c10::IValue); *n is the number of inputs. */
static inline const char *value_inputs(const void *function, uint64_t *n)
{
    *n = value_word(function, torch_api.layout->rf_inputs_size);
    return value_pointer(function, torch_api.layout->rf_inputs_data);
}
