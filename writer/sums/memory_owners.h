/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of tensor memory: operator, module and stack of the allocations that were alive at a
 * window's peak, at a failed allocation, and at the window's end. Records come ring by ring and are
 * sorted by time before they are counted. Bounded memory. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"

#define OWNERS_DEVICES 32u /* most devices that are counted */

struct memory_owners; /* at most one per window */

/* Takes a REC_MEMORY or REC_OUT_OF_MEMORY, and makes *o if NULL. Must not be full. False: no
 * memory, not counted. */
bool memory_owners_take(struct memory_owners **o, const struct record *r, uint32_t tid);

/* True when no more events can wait: memory_owners_settle() must come first, for all events if
 * needed. o may be NULL. */
bool memory_owners_full(const struct memory_owners *o);

/* Counts the events from before `ticks` in time order. Calls failed() for each failed allocation,
 * with the holders at that time. o may be NULL. */
void memory_owners_settle(struct memory_owners *o, uint64_t ticks,
                          void (*failed)(const struct memory_event *, const struct memory_holders *,
                                         void *),
                          void *arg);

/* The n-th device, or NULL. o may be NULL. */
const struct memory_device *memory_owners_device(const struct memory_owners *o, unsigned n);

/* Writes the holders of a device's memory at its peak, or after the last event, to *out. */
void memory_owners_at_peak(const struct memory_owners *o, const struct memory_device *device,
                           struct memory_holders *out);
void memory_owners_at_end(const struct memory_owners *o, const struct memory_device *device,
                          struct memory_holders *out); /* as above */

/* Bytes of memory that `o` uses. o may be NULL. */
uint64_t memory_owners_bytes(const struct memory_owners *o);

/* Frees the holders. o may be NULL. */
void memory_owners_free(struct memory_owners *o);
