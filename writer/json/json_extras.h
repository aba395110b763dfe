/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the extra numbers of a record as args of its event. Only for the .c files of
 * writer/json. */
#pragma once

#include <stdbool.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* Appends `"key": value` for each extra. first: nothing stands before them. cprof thread. */
void json_extras(struct buf *b, const struct record *r, bool first);

/* Closes the args and the event, with the extras that stand beside args. cprof thread. */
void json_extras_end(struct buf *b, const struct record *r);
