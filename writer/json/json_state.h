/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a GPU as Chrome JSON text: a counter for each value, and what slows the GPU down.
 * Pure, as json.h. cprof thread. */
#pragma once

#include "writer/json/json.h"
#include "writer/record/record.h"

/* Appends a counter for each known value. Returns their number. */
unsigned json_state(struct buf *b, const struct gpu_state *s, const struct json_place *at);

/* The names of enum throttle. */
extern const char *const throttle_names[THROTTLES];

/* Appends a counter "Throttled: REASON" of 1 or 0 for each reason that began or ended since
 * `before`, and an instant where it began. Returns the number of events. */
unsigned json_throttles(struct buf *b, uint32_t before, uint32_t now, const struct json_place *at);
