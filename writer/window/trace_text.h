/* SPDX-License-Identifier: Apache-2.0 */
/* The head and the trailer of a trace file. Each flush replaces both, so that the open file is a
 * valid trace at any time. cprof thread. */
#pragma once

#include "writer/window/window.h"

/* Fixed, so that each flush rewrites the head in place, as rank, groups and devices become known;
 * cupti/devices.c writes at most 12 KB of it. */
#define HEAD_BYTES 16384u

/* Writes the head to b, padded to its fixed size. HTA reads `"rank": N` line by line. */
void trace_head(const struct window *w, const struct window_shared *shared, struct buf *b);

/* Writes the trailer to b: open spans, names of rows, metadata, frames and the `cprof` object.
 * name: w->part_path, or the final path of a complete file. */
void trace_trailer(struct window *w, const struct window_shared *shared, const char *name,
                   struct buf *b);
