/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's inputs (record.h, DATA_SHAPES) as Kineto writes them: "Input type", "Input Dims",
 * "Input Strides" and "Concrete Inputs", an entry per input each. Pure functions, cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"

/* Appends the four members; nothing without a whole item. names: n_names dtypes by c10::ScalarType,
 * NULL entries allowed. first: nothing stands before them; returns the same for what follows. */
bool json_inputs(struct buf *b, const uint8_t *data, size_t n, const char *const *names,
                 unsigned n_names, bool first);
