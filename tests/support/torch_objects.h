/* SPDX-License-Identifier: Apache-2.0 */
/* Lays out an operator's inputs as torch 2.13 does, for tests of the code that reads them. Each
 * object is on the heap with its exact size, so that ASan sees an overread. */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "preload/torch/torch.h"

#define FLOAT 6u
#define LONG  4u

static const struct torch_layout *l;
static void *undefined;

/* All objects, which live as long as the test. Only LeakSanitizer reads this array; without
 * volatile the compiler would remove it. */
static void *volatile objects[8192];
static unsigned n_objects;

static inline void *make(size_t size)
{
    void *object = calloc(1, size);
    ck_assert_ptr_nonnull(object);
    ck_assert_uint_lt(n_objects, sizeof objects / sizeof *objects);
    objects[n_objects++] = object;
    return object;
}

static inline void set(void *object, uint16_t offset, const void *value, size_t size)
{
    if (size) /* without dimensions, sizes is NULL */
        memcpy((char *)object + offset, value, size);
}

#define SET(object, offset, type, value) set(object, offset, &(type){value}, sizeof(type))

static inline void setup(void)
{
    l = torch_layout_find(2, 13, true);
    ck_assert_ptr_nonnull(l);
    undefined = make(l->ti_size);
    torch_api.layout = l;
    torch_api.undefined_tensor = undefined;
}

/* ---- objects ---- */

/* The stride of dimension i in every tensor. */
static inline int64_t stride_of(uint64_t i)
{
    return 1000 + (int64_t)i;
}

static inline void *tensor(uint16_t dtype, uint64_t dims, const int64_t *sizes)
{
    void *t = make(l->ti_size);
    SET(t, l->ti_ndim, uint64_t, dims);
    SET(t, l->ti_dtype, uint16_t, dtype);
    int64_t *outside = NULL, *strides = (int64_t *)((char *)t + l->ti_sizes) + l->ti_inline_max;
    if (dims <= l->ti_inline_max) {
        set(t, l->ti_sizes, sizes, dims * sizeof *sizes);
    } else {
        outside = make(2 * dims * sizeof *sizes);
        memcpy(outside, sizes, dims * sizeof *sizes);
        SET(t, l->ti_sizes, const void *, outside);
        strides = outside + dims;
    }
    for (uint64_t i = 0; i < dims; i++)
        strides[i] = stride_of(i);
    return t;
}

#define TENSOR(dtype, ...)                                                                         \
    tensor(dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static _Alignas(16) char inputs[8192];
static unsigned n_inputs;

static inline void put_value(void *at, uint16_t tag, const void *payload)
{
    SET(at, l->iv_payload, const void *, payload);
    SET(at, l->iv_tag, uint32_t, tag);
}

static inline void add(uint16_t tag, const void *payload)
{
    ck_assert_uint_lt((n_inputs + 1) * l->iv_size, sizeof inputs);
    put_value(inputs + n_inputs++ * l->iv_size, tag, payload);
}

/* A list of elements with this tag. `kind` is the kind of the element type. */
static inline void *list(uint16_t kind, uint16_t tag, unsigned n, void *const *payloads)
{
    char *elements = make(n ? n * l->iv_size : 1);
    for (unsigned i = 0; i < n; i++)
        put_value(elements + i * l->iv_size, tag, payloads ? payloads[i] : NULL);
    void *type = make(l->type_kind + sizeof(uint32_t));
    SET(type, l->type_kind, uint32_t, kind);
    void *made = make(l->list_element_type + sizeof(void *));
    SET(made, l->list_begin, const void *, elements);
    SET(made, l->list_end, const void *, elements + n * l->iv_size);
    SET(made, l->list_element_type, const void *, type);
    return made;
}

/* A RecordFunction with the inputs added so far. */
static inline void *make_function(void)
{
    char *exact = make(n_inputs ? n_inputs * l->iv_size : 1);
    memcpy(exact, inputs, n_inputs * l->iv_size);
    void *function = make(l->rf_size);
    SET(function, l->rf_inputs_data, const void *, exact);
    SET(function, l->rf_inputs_size, uint64_t, n_inputs);
    return function;
}
