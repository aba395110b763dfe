/* SPDX-License-Identifier: Apache-2.0 */
/* Which recording of an event a wait waited for: a table kept from the first record of CUPTI on, across windows. cprof thread. */
#ifndef WRITER_EVENTS_H
#define WRITER_EVENTS_H

#include "writer/gpu_record.h"
#include "writer/json_gpu.h"

/* Remembers the recording of an event (GPU_EVENT). correlation: its full id. */
void events_note(const struct gpu_record *r, uint64_t correlation);

/* The recording that a wait (GPU_SYNC) of the call `correlation` waited for. False: it is not known, *out is -1, -1. */
bool events_find(const struct gpu_record *r, uint64_t correlation, struct json_wait *out);

#endif
