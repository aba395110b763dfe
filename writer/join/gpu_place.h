/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a GPU record in a window's file. cprof thread. */
#pragma once

#include "writer/sums/sums.h"
#include "writer/window/window.h"

/* Finds the row of this kind (owner and id as in lanes_place()) for [r->start, r->end). False: the
 * record overlaps others on all rows that are allowed; it is counted as lost and must not be
 * written. */
bool gpu_place(struct window *w, const struct window_shared *shared, enum lane_kind kind,
               uint32_t owner, uint32_t id, const struct gpu_record *r, struct json_place *at);

/* The place of a reading of a GPU's state: the GPU's process. */
struct json_place gpu_place_state(struct window *w, const struct window_shared *shared,
                                  const struct gpu_state *s);
