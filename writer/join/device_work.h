/* SPDX-License-Identifier: Apache-2.0 */
/* Takes what CUPTI recorded on the device, and driver memory: writes it into the window of the call
 * that caused it. cprof thread. */
#pragma once

#include "writer/join/correlation.h"
#include "writer/join/join.h"
#include "writer/join/timeline.h"
#include "writer/record/record.h"

/* Records that came too late for their file; join_late() takes them. */
extern uint64_t join_late_records;

/* Counts a GPU record of the window. */
void work_count(struct window *w);

/* Names the thread's row at its first event. t: NULL is allowed. */
void work_name_thread(const struct join_windows *in, struct window *w, struct timeline *t);

/* CUPTI reports a cudaEventQuery or cudaStreamQuery that found all work done as a wait ("event
 * query and stream query records via CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", cupti_activity.h). These
 * calls are not shown (cupti/calls.def), so nothing is lost. */
bool work_may_be_query(const struct gpu_record *r);

/* Writes a record without its call: a kernel in its stream's row, an allocation in its thread's.
 * Not counted for the variables of a module, which no call allocates. */
void work_orphan(const struct join_windows *in, struct window *w, const struct gpu_record *r);

/* Writes a record of a known call into the call's file. in: struct join_windows. */
void work_put(struct call *c, const struct gpu_record *r, void *in);

/* Writes a kernel that waited for the records after it. in: struct join_windows. */
void work_put_share(struct call *c, const struct gpu_record *r, uint64_t flops, void *in);

/* Counts a record for which there was no room or no memory. */
void work_no_room(const struct join_windows *in, const struct gpu_record *r);

/* Takes a record that a call caused. It is written where the call is, or waits for the call. Its id
 * is 0 when CUPTI records no calls. */
void work_take(const struct join_windows *in, const struct gpu_record *r);

/* Takes an overhead of CUPTI, which has a row of its own. */
void work_take_overhead(const struct join_windows *in, const struct gpu_record *r);
