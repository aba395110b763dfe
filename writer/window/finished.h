/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers the last FINISHED windows whose file is complete, so that records that arrive later are
 * counted as late. cprof thread. */
#pragma once

#include <stdint.h>

#include "writer/base/base.h"

#define FINISHED 256u

/* Adds a finished window [start, end) in ticks. open_ids: ids, 8 bytes each, of the spans that its
 * file has as unfinished. Takes the buffer over and leaves an empty one. */
void finished_add(uint64_t start, uint64_t end, struct buf *open_ids);

/* True when a record that began at `ticks` is too late for its file. */
bool finished_missed(uint64_t ticks);

/* True when a span that began at `ticks` is too late for its file. False when the file has it as
 * unfinished. */
bool finished_missed_span(uint64_t ticks, uint64_t id);
