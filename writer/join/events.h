/* SPDX-License-Identifier: Apache-2.0 */
/* Which recording of a CUDA event a wait waited for. The table lasts across windows, while CUPTI
 * records without a pause. cprof thread. */
#pragma once

#include "writer/record/record.h"
#include "writer/json/json.h"

/* Remembers the recording of an event (GPU_EVENT). correlation: its full id. */
void events_note(const struct gpu_record *r, uint64_t correlation);

/* CUPTI pauses, and recordings may be missed. Later waits match none of the earlier recordings,
 * unless CUPTI names the recording. */
void events_pause(void);

/* The recording that a wait (GPU_SYNC) of the call `correlation` waited for. False: unknown, *out
 * is -1, -1. */
bool events_find(const struct gpu_record *r, uint64_t correlation, struct json_wait *out);
