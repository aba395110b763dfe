/* SPDX-License-Identifier: Apache-2.0 */
/* Records kept aside, raw, until it is known whether a file wants them: the markers of warmup steps
 * and of steps to skip. cprof thread. */
#ifndef WRITER_RECORD_HOLD_H
#define WRITER_RECORD_HOLD_H

#include "writer/record/record_types.h"
#include "writer/record/thread_log.h"

struct hold_chunk;

struct hold {
    uint64_t from;  /* ticks: takes records that start at or after this */
    uint64_t limit; /* most bytes of records */
    uint64_t bytes; /* bytes of records held */
    /* records for which there was no room; those of them that ask for steps to skip */
    uint64_t refused, refused_skipped;
    struct hold_chunk *first, *last;
    bool on;
};

/* Begins to hold what starts at `from` or later, at most `limit` bytes. */
void hold_begin(struct hold *h, uint64_t from, uint64_t limit);

/* Keeps a copy; false when the limit is reached or memory is short (counted). */
bool hold_put(struct hold *h, const struct record_owner *owner, const struct record *r);

/* Calls each() for every record held, in the order in which they came. */
void hold_each(const struct hold *h,
               void (*each)(const struct record_owner *, const struct record *, void *), void *arg);

/* Forgets all but the records flagged REC_SKIPPED, and goes on holding. */
void hold_keep_skipped(struct hold *h);

/* Forgets everything and stops holding. */
void hold_drop(struct hold *h);

#endif
