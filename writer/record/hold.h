/* SPDX-License-Identifier: Apache-2.0 */
/* Holds raw records until it is known whether a file wants them: the markers of warmup steps and of
 * skipped steps. cprof thread. */
#pragma once

#include "writer/record/record_types.h"
#include "writer/record/thread_log.h"

struct hold_chunk;

struct hold {
    uint64_t from;  /* ticks; records that start earlier are not held */
    uint64_t limit; /* most bytes of records */
    uint64_t bytes; /* bytes of records held */
    /* records that found no room, and how many of them were REC_SKIPPED */
    uint64_t refused, refused_skipped;
    struct hold_chunk *first, *last;
    bool on;
};

/* Starts holding records that start at `from` (ticks) or later, at most `limit` bytes. Drops what
 * was held. */
void hold_begin(struct hold *h, uint64_t from, uint64_t limit);

/* Holds a copy of the record. False, counted in `refused`: the limit is reached, or no memory. */
bool hold_put(struct hold *h, const struct record_owner *owner, const struct record *r);

/* Calls each() for every held record, in the order of hold_put(). */
void hold_each(const struct hold *h,
               void (*each)(const struct record_owner *, const struct record *, void *), void *arg);

/* Drops all records but those flagged REC_SKIPPED, and continues holding. */
void hold_keep_skipped(struct hold *h);

/* Drops all records and stops holding. */
void hold_drop(struct hold *h);
