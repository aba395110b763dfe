/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of torch's operators from their names and inputs, by the table flops.def. Application
 * threads, in the operator's start callback. No lock, no allocation, no state. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct flops_count {
    uint64_t flops, bytes; /* bytes: of tensors read and written */
    uint32_t dtype;        /* c10::ScalarType of the first operand */
    int32_t device_type;   /* c10::DeviceType of the first operand: 0 CPU, 1 CUDA; -1: unknown */
    int32_t device_index;  /* -1: none */
    bool product;          /* all its work is products, of matrices or of a convolution */
};

struct flops_row;

/* Prepares the table. Call once, when torch_api.layout is known, before the callbacks are
 * registered. */
void flops_start(void);

/* The row of an operator; NULL: not in the table. len: bytes of the name. */
const struct flops_row *flops_find(const char *name, uint32_t len);

/* A row for an operator outside the table whose name suggests a matrix product; NULL: it does not.
 * Its calls are FLOPS_UNKNOWN or FLOPS_NONE, never counted. */
const struct flops_row *flops_guess(const char *name);

enum flops_told {
    FLOPS_COUNTED,
    /* its shapes are unknown (nested, symbolic, packed sequences, a product beyond 2^63) or do not
     * fit the operator */
    FLOPS_UNKNOWN,
    /* nothing is computed (tensors without data), or operators inside it will be counted */
    FLOPS_NONE,
};

/* Counts a call whose inputs the RecordFunction `function` holds. *out is valid only for
 * FLOPS_COUNTED. */
enum flops_told flops_of(const struct flops_row *row, const void *function,
                         struct flops_count *out);
