/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that a record carries besides its data, as args of its event. Only the writer/json*.c
 * files include it. */
#ifndef WRITER_JSON_JSON_EXTRAS_H
#define WRITER_JSON_JSON_EXTRAS_H

#include <stdbool.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* Appends `"key": value` for each extra of the record; first is false when something stands before
 * them. cprof thread. */
void json_extras(struct buf *b, const struct record *r, bool first);

/* Ends an event whose args are open, with what of the extras stands beside the args. cprof
 * thread. */
void json_extras_end(struct buf *b, const struct record *r);

#endif
