/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the rows of work on a device: kernels, copies, fills, whole graphs, waits and driver
 * memory, each with the arrow from its call. device_work.c finds the window and the call. cprof
 * thread. */
#pragma once

#include "writer/join/correlation.h"
#include "writer/record/record.h"
#include "writer/join/join.h"
#include "writer/window/window.h"

/* Writes the row of a record that this call caused, unless the window is full. A kernel that may
 * share the call's FLOPs with others waits for them first: attribution_settle() returns it. */
void work_rows_put(const struct join_windows *in, struct window *w, struct call *c,
                   const struct gpu_record *r);

/* Writes the row of a kernel, copy, fill or whole graph now. flops: the kernel's own; 0: unknown.
 * The window must have room. */
void work_row(const struct join_windows *in, struct window *w, struct call *c,
              const struct gpu_record *r, uint64_t flops);
