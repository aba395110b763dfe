/* SPDX-License-Identifier: Apache-2.0 */
/* The windows whose file is complete: what still comes of their time is late, unless it stands
 * there already. Of the last FINISHED windows; what comes later than that is nobody's. cprof
 * thread. */
#ifndef WRITER_WINDOW_FINISHED_H
#define WRITER_WINDOW_FINISHED_H

#include <stdint.h>

#include "writer/base/base.h"

#define FINISHED 256u

/* A window of [start, end) in ticks has its file. open_ids: of the spans that stand there as
 * unfinished, 8 bytes each; they are taken over, and an empty buffer is left in their place. */
void finished_add(uint64_t start, uint64_t end, struct buf *open_ids);

/* What began then is too late for its file. */
bool finished_missed(uint64_t ticks);

/* The same of a span, which may stand there as unfinished. */
bool finished_missed_span(uint64_t ticks, uint64_t id);

#endif
