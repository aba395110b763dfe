/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds tensor memory: the operators, the modules they ran in and the stacks that asked, whose
 * allocations were alive when a window's memory was highest, when an allocation failed, and at the
 * window's end. Records come ring by ring; they are put in order of time before they are counted.
 * Bounded memory, one of these for each window. cprof thread. */
#ifndef WRITER_SUMS_MEMORY_OWNERS_H
#define WRITER_SUMS_MEMORY_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"

#define OWNERS_DEVICES 32u /* most devices that are followed */

struct memory_owners; /* zero or one for each window */

/* Takes a REC_MEMORY or REC_OUT_OF_MEMORY; *o is made when it is new and not full. False: no
 * memory, it is not counted. */
bool memory_owners_take(struct memory_owners **o, const struct record *r, uint32_t tid);

/* True when no more can wait: settle first, up to the newest if need be. o may be NULL. */
bool memory_owners_full(const struct memory_owners *o);

/* Counts what was recorded before `ticks`, in order; failed() is called for each allocation that
 * failed when it is its turn, with what was held then. o may be NULL. */
void memory_owners_settle(struct memory_owners *o, uint64_t ticks,
                          void (*failed)(const struct memory_event *, const struct memory_holders *,
                                         void *),
                          void *arg);

/* The n-th device, or NULL. o may be NULL. */
const struct memory_device *memory_owners_device(const struct memory_owners *o, unsigned n);

/* Who held a device's memory at its peak, or after the last record. */
void memory_owners_at_peak(const struct memory_owners *o, const struct memory_device *device,
                           struct memory_holders *out);
void memory_owners_at_end(const struct memory_owners *o, const struct memory_device *device,
                          struct memory_holders *out); /* as above */

/* Memory that it takes itself, in bytes. o may be NULL. */
uint64_t memory_owners_bytes(const struct memory_owners *o);

/* Frees. NULL is allowed. */
void memory_owners_free(struct memory_owners *o);

#endif
