/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor memory as Chrome JSON text: the events of json.h, failed allocations, and what a window's
 * memory came to. Pure, appends whole events or nothing. cprof thread. */
#ifndef WRITER_JSON_JSON_MEMORY_H
#define WRITER_JSON_JSON_MEMORY_H

#include "writer/json/json.h"
#include "writer/record/record.h"

/* Kineto's [memory] instant, and the device's total as a counter. Nothing when the record has no
 * whole record_memory. */
void json_memory(struct buf *b, const struct record *r, const struct json_place *at);

/* The counter of what a device's caching allocator holds. */
void json_memory_reserved(struct buf *b, const struct record_memory *state,
                          const struct json_place *at);

/* Kineto's [OutOfMemory], with the largest holders; [driver OutOfMemory] for a call of the driver
 * that failed. */
void json_out_of_memory(struct buf *b, const struct memory_event *e,
                        const struct memory_holders *holders, const struct json_place *at);

/* An object: a device's tensor memory in the window. peak_ns: when it was highest, after the file's
 * base time. */
void json_memory_device(struct buf *b, const struct memory_device *device, int64_t peak_ns,
                        const struct memory_holders *at_peak, const struct memory_holders *at_end);

#endif
