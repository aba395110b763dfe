/* SPDX-License-Identifier: Apache-2.0 */
/* Which recording of an event a wait waited for: a table kept across windows, for as long as CUPTI
 * records without a pause. cprof thread. */
#ifndef WRITER_JOIN_EVENTS_H
#define WRITER_JOIN_EVENTS_H

#include "writer/record/record.h"
#include "writer/json/json.h"

/* Remembers the recording of an event (GPU_EVENT). correlation: its full id. */
void events_note(const struct gpu_record *r, uint64_t correlation);

/* Events may be recorded now without being seen: a wait to come is for none of those that were,
 * unless CUPTI names it. */
void events_pause(void);

/* The recording that a wait (GPU_SYNC) of the call `correlation` waited for. False: it is not
 * known, *out is -1, -1. */
bool events_find(const struct gpu_record *r, uint64_t correlation, struct json_wait *out);

#endif
