/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point operations of torch's operators from their names and inputs, by the table
 * flops.def. Application threads, in the operator's start callback; no lock, no allocation, nothing
 * kept. */
#ifndef PRELOAD_FLOPS_FLOPS_H
#define PRELOAD_FLOPS_FLOPS_H

#include <stdbool.h>
#include <stdint.h>

/* What one call of an operator does. */
struct flops_count {
    uint64_t flops, bytes; /* bytes: of tensors read and written */
    uint32_t dtype;        /* c10::ScalarType of the first operand */
    int32_t device_type;   /* c10::DeviceType of the first operand: 0 CPU, 1 CUDA; -1 = not known */
    int32_t device_index;  /* -1 = none */
    bool product;          /* all that it does is products, as of a convolution */
};

struct flops_row;

/* Makes the table ready, once torch_api.layout is known. Once, before the callbacks are
 * registered. */
void flops_start(void);

/* The row of the operator with this name; NULL: it is not in the table. len: bytes of the name. */
const struct flops_row *flops_find(const char *name, uint32_t len);

/* The row for an operator that is not in the table and whose name says that it multiplies matrices;
 * NULL: it does not. Nothing is counted by it: such a call is FLOPS_UNKNOWN, or FLOPS_NONE. */
const struct flops_row *flops_guess(const char *name);

enum flops_told {
    FLOPS_COUNTED,
    /* its shapes cannot be told (nested, symbolic, packed sequences, a product beyond 2^63), or
     * are not what it takes */
    FLOPS_UNKNOWN,
    FLOPS_NONE, /* nothing is computed (tensors without data), or what it calls will be counted */
};

/* Counts the call whose inputs the RecordFunction `function` holds; *out is whole only for
 * FLOPS_COUNTED. */
enum flops_told flops_of(const struct flops_row *row, const void *function,
                         struct flops_count *out);

#endif
