/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the GPU: which thread id an event of a stream gets, so that no two events of one row
 * overlap in part (Perfetto drops the later one), whatever order they come in. One per window.
 * cprof thread. */
#ifndef WRITER_SUMS_LANES_H
#define WRITER_SUMS_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

/* What a row shows; each has its own range of thread ids. */
enum lane_kind {
    LANE_WORK,       /* kernels, copies, fills: tid = stream id, "stream 7" */
    LANE_SYNC,       /* waits: "waits on stream 7", or "waits" without a stream */
    LANE_ANNOTATION, /* user's ranges: "ranges on stream 7" */
    LANE_OVERHEAD,   /* of one thread: pid of its own, "overhead" */
    LANE_KINDS
};

/* Rows of one stream and kind, the plain one among them. A device runs 128 kernels at once, but any
 * number of threads may wait. */
#define LANES_OVERLAPS 1024u

struct lanes; /* made by lanes_make() */

/* NULL: no memory. */
struct lanes *lanes_make(void);

/* Frees; NULL is allowed. */
void lanes_free(struct lanes *l);

/* Memory that their intervals take, in bytes. l may be NULL. */
uint64_t lanes_bytes(const struct lanes *l);

/* Rows and processes get their M events again when they are next used. NULL is allowed. */
void lanes_rename(struct lanes *l);

/* True when the process of such a row has been named: lanes_place() does not look at `process`
 * then. */
bool lanes_have_process(const struct lanes *l, enum lane_kind kind, uint32_t owner);

/* The row for an event [start, end) in nanoseconds. owner: device ordinal, or the pid as written
 * for LANE_OVERHEAD; id: stream id or thread id. Writes *pid and *tid (never 0). Touching events
 * share a row; events that nest do too when `nest` (annotations), else they go to an extra row
 * ("stream 7 (overlap 1)"). Bounded memory: what starts before all that is remembered of a row goes
 * to an extra row. The names and sort indices (M events) of a row and of its process are appended
 * to `b` when it is first used: process_name = `process`, process_labels "GPU N" (or "overhead"),
 * process_sort_index 5000000 + N. False: it overlaps something on every row that the stream may
 * have, so it is not to be written. */
bool lanes_place(struct lanes *l, enum lane_kind kind, uint32_t owner, uint32_t id, int64_t start,
                 int64_t end, bool nest, const char *process, struct buf *b, uint32_t *pid,
                 uint32_t *tid);

#endif
