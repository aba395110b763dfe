/* SPDX-License-Identifier: Apache-2.0 */
/* Turns completed buffers into gpu_records: walks, translates, counts faults. cprof thread. */
#pragma once

#include "cupti/bind.h"
#include "cupti/gpu_trace.h"

/* Sets what reads the records. Call once, before the cprof thread collects. dump_folder: NULL, or
 * as gpu_options.dump_path. */
void collect_start(const struct cupti *c, const char *dump_folder);

/* Reads CUPTI's clock and ticks for the map, if the last pair is older than 5 ms. */
void collect_clock(void);

/* Translates completed buffers and recycles them, many at a time. The first buffers wait until a
 * device is known, 500 ms at most; last: no more will come, so none waits. ours: cprof may take
 * CUPTI's count of dropped records. Adds to *faults. Returns the number of records. */
uint64_t collect_buffers(bool ours, bool last, void (*each)(const struct gpu_record *r, void *arg),
                         void *arg, struct gpu_faults *faults);

/* Makes collect_buffers() begin no more calls of CUPTI. Unread buffers stay. Any thread. */
void collect_stop(void);

/* Whether collect_stop() was called. From then on no code may begin a call of CUPTI. Any thread. */
bool collect_stopped(void);

/* Converts a CUPTI time stamp to clock_ticks(). */
uint64_t collect_ticks(uint64_t cupti_time);
