/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's inputs (record.h, DATA_SHAPES) as Kineto writes them in args: "Input type", "Input
 * Dims", "Input Strides" and "Concrete Inputs", with one entry for each input. Pure functions,
 * cprof thread. */
#ifndef WRITER_JSON_JSON_INPUTS_H
#define WRITER_JSON_JSON_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"

/* Appends the four members; nothing when there is no whole item. names: of dtypes by
 * c10::ScalarType, NULL entries allowed; n_names of them. first: nothing stands before them;
 * returns whether that still is so. */
bool json_inputs(struct buf *b, const uint8_t *data, size_t n, const char *const *names,
                 unsigned n_names, bool first);

#endif
