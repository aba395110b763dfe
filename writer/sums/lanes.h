/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the GPU: the thread id for each event of a stream, so that no two events of a row overlap
 * in part (Perfetto drops the later one). Events may come in any order. One per window. cprof
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

/* The kinds of rows; each kind has its own thread ids. */
enum lane_kind {
    LANE_WORK,       /* kernels, copies, fills: tid = stream id, "stream 7" */
    LANE_SYNC,       /* waits: "waits on stream 7", or "waits" without a stream */
    LANE_ANNOTATION, /* ranges of the user: "ranges on stream 7" */
    LANE_OVERHEAD,   /* overhead of one thread, in the process "overhead" */
    LANE_KINDS
};

/* Rows of one stream and kind, with the plain row. A device runs 128 kernels at once, but any
 * number of threads may wait. */
#define LANES_OVERLAPS 1024u

struct lanes;

/* Makes the rows of a window. NULL: no memory. */
struct lanes *lanes_make(void);

/* Frees the rows. l may be NULL. */
void lanes_free(struct lanes *l);

/* Bytes of memory for the intervals. l may be NULL. */
uint64_t lanes_bytes(const struct lanes *l);

/* Makes the next use of each row and process write its M events again. l may be NULL. */
void lanes_rename(struct lanes *l);

/* True when the process of this kind and owner has its name, so lanes_place() ignores `process`. */
bool lanes_have_process(const struct lanes *l, enum lane_kind kind, uint32_t owner);

/* The thread id of events of a GPU that are of no row: that of the default stream, because viewers
 * would show another one as a row. */
#define LANES_STATE_TID 7u

/* Appends the M events of a GPU's process, which has none yet. */
void lanes_name_process(struct lanes *l, uint32_t device, const char *process, struct buf *b);

/* Finds the row for an event [start, end) in nanoseconds. owner: device ordinal; for LANE_OVERHEAD
 * the pid as written. id: stream or thread id. Writes *pid and *tid (never 0).
 * Touching events share a row. nest: nested events share it too; without nest, they get an extra
 * row ("stream 7 (overlap 1)"). So does an event that is older than the remembered part of a row.
 * The first use of a row or process appends its M events to `b`: process_name `process`,
 * process_labels "GPU N" (or "overhead"), process_sort_index 5000000 + N.
 * False: it overlaps others on every row that the stream may have, and must not be written. */
bool lanes_place(struct lanes *l, enum lane_kind kind, uint32_t owner, uint32_t id, int64_t start,
                 int64_t end, bool nest, const char *process, struct buf *b, uint32_t *pid,
                 uint32_t *tid);
