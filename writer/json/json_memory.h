/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor memory as Chrome JSON text: the events, failed allocations, and the totals of a window.
 * Pure, whole events or nothing. cprof thread. */
#pragma once

#include "writer/json/json.h"
#include "writer/record/record.h"

/* Appends Kineto's [memory] instant and the counter of the device's total. Nothing without a whole
 * record_memory. */
void json_memory(struct buf *b, const struct record *r, const struct json_place *at);

/* Appends the counter of the memory that a device's caching allocator holds. */
void json_memory_reserved(struct buf *b, const struct record_memory *state,
                          const struct json_place *at);

/* Appends Kineto's [OutOfMemory] with the largest holders, or [driver OutOfMemory] for a failed
 * driver call. */
void json_out_of_memory(struct buf *b, const struct memory_event *e,
                        const struct memory_holders *holders, const struct json_place *at);

/* Writes a device's name as torch does ("CPU", "CUDA:0"), terminated. */
void json_memory_device_name(char name[64], int32_t type, int32_t index);

/* Appends an object: a device's tensor memory in the window. peak_ns: after the file's base
 * time. */
void json_memory_device(struct buf *b, const struct memory_device *device, int64_t peak_ns,
                        const struct memory_holders *at_peak, const struct memory_holders *at_end);
