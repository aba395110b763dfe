/* SPDX-License-Identifier: Apache-2.0 */
/* The time that one row of a trace is taken, as intervals in order. Says whether another event
 * fits: the importer of Perfetto drops an event that overlaps another one of its row in part.
 * Events may come in any order; in the order of time each costs O(1), and so does a run of them in
 * the middle of others (a gap stays where the last one went in). cprof thread. */
#ifndef WRITER_SUMS_INTERVALS_H
#define WRITER_SUMS_INTERVALS_H

#include <stdbool.h>
#include <stdint.h>

#define INTERVALS_MOST  (1u << 17) /* of one list; then the older half is forgotten */
#define INTERVALS_DEPTH 128u       /* most levels of events inside events */

struct interval {
    int64_t start, end;
    struct intervals *inside; /* what lies inside; NULL = nothing */
};

/* Disjoint intervals in order, those that touch merged into one unless they nest. */
struct intervals {
    struct interval *at; /* owned; [0, gap) and, behind a gap, [gap, len) */
    uint32_t len, cap, gap;
    uint32_t height; /* levels, at most this many */
    int64_t horizon; /* nothing is remembered of the time before this */
};

enum interval_fit {
    INTERVAL_ADDED,
    INTERVAL_OVERLAPS, /* or starts before the horizon */
    INTERVAL_NO_ROOM,  /* the budget or the memory is used up; nothing has changed */
};

/* Empty. */
void intervals_init(struct intervals *v);

/* Adds [start, end), start <= end, if it fits. nest: it also fits where it contains others or is
 * contained; the same for all calls of one list. *used: intervals allocated by everybody who shares
 * `budget`. */
enum interval_fit intervals_add(struct intervals *v, int64_t start, int64_t end, bool nest,
                                uint64_t *used, uint64_t budget);

/* Gives back the memory; nothing that starts before what was remembered, or before `until`, fits
 * any more. */
void intervals_forget(struct intervals *v, int64_t until, uint64_t *used);

#endif
