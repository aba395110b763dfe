/* SPDX-License-Identifier: Apache-2.0 */
/* Where a record of the GPU stands in a window's file. cprof thread. */
#ifndef WRITER_JOIN_GPU_PLACE_H
#define WRITER_JOIN_GPU_PLACE_H

#include "writer/sums/sums.h"
#include "writer/window/window.h"

/* Finds the row of this kind (owner and id as lanes_place() takes them) for [r->start, r->end).
 * False: it overlaps something on each that there may be, is counted, and is not to be written. */
bool gpu_place(struct window *w, const struct window_shared *shared, enum lane_kind kind,
               uint32_t owner, uint32_t id, const struct gpu_record *r, struct json_place *at);

#endif
