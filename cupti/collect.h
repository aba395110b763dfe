/* SPDX-License-Identifier: Apache-2.0 */
/* Completed buffers to gpu_records: flush, walk, translate, count. cprof thread. */
#ifndef CUPTI_COLLECT_H
#define CUPTI_COLLECT_H

#include "cupti/bind.h"
#include "cupti/gpu_trace.h"

/* What the records of this process are read with. Once, before the cprof thread comes here.
 * dump_folder: NULL or as in gpu_options. */
void collect_start(const struct cupti *c, const char *dump_folder);

/* Pairs CUPTI's clock with ours, when the last pair is no longer fresh. */
void collect_clock(void);

/* Walks and recycles what has been completed. The first buffers wait until a device is known, 500
 * ms at most; last: not now, no more will come. ours: CUPTI's count of dropped records is ours to
 * take. Adds to *faults; returns the number of records. */
uint64_t collect_buffers(bool ours, bool last, void (*each)(const struct gpu_record *r, void *arg),
                         void *arg, struct gpu_faults *faults);

/* From now on collect_buffers() begins no call of CUPTI; what it has not walked stays. Any
 * thread. */
void collect_stop(void);

/* Whether collect_stop() was called. Any thread; after it no call of CUPTI is to begin anywhere. */
bool collect_stopped(void);

/* A CUPTI time stamp in clock_ticks(). */
uint64_t collect_ticks(uint64_t cupti_time);

#endif
