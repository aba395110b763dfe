/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of what runs on a device: kernels, copies, fills, whole graphs, waits and the driver's
 * memory, each with the arrow from its call. join.c knows which window and which call they are of.
 * cprof thread. */
#ifndef WRITER_JOIN_WORK_ROWS_H
#define WRITER_JOIN_WORK_ROWS_H

#include "writer/join/correlation.h"
#include "writer/record/record.h"
#include "writer/join/join.h"
#include "writer/window/window.h"

/* The row of a record that is of this window and was caused by this call, or nothing where the
 * window is full. A kernel that shares its call's FLOPs with others may wait for these:
 * attribution_settle() hands it out. */
void work_rows_put(const struct join_windows *in, struct window *w, struct call *c,
                   const struct gpu_record *r);

/* The row of a kernel, a copy, a fill or a whole graph, now. flops: its own, 0 = not known. The
 * window has room. */
void work_row(const struct join_windows *in, struct window *w, struct call *c,
              const struct gpu_record *r, uint64_t flops);

#endif
