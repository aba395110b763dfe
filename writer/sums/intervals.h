/* SPDX-License-Identifier: Apache-2.0 */
/* The busy time of one row of a trace, as ordered intervals. Tells whether an event fits: Perfetto
 * drops an event that overlaps another of its row in part. Events may come in any order. An event
 * in time order costs O(1), as does a run of events elsewhere, because a gap stays at the last
 * insertion. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define INTERVALS_MOST  (1u << 17) /* of one list; then the older half is forgotten */
#define INTERVALS_DEPTH 128u       /* most levels of nested events */

struct interval {
    int64_t start, end;
    struct intervals *inside; /* events inside it; NULL: none */
};

/* Disjoint ordered intervals. Touching ones are merged, unless events nest. */
struct intervals {
    struct interval *at; /* owned; [0, gap) and, after a gap, [gap, len) */
    uint32_t len, cap, gap;
    uint32_t height; /* upper limit of its levels */
    int64_t horizon; /* earlier times are forgotten */
};

enum interval_fit {
    INTERVAL_ADDED,
    INTERVAL_OVERLAPS, /* or starts before the horizon */
    INTERVAL_NO_ROOM,  /* budget or memory is used up; nothing has changed */
};

/* Makes an empty list. */
void intervals_init(struct intervals *v);

/* Adds [start, end), start <= end, if it fits. nest: it may contain events or be contained; the
 * same for all calls on a list. *used: intervals allocated by all lists that share `budget`. */
enum interval_fit intervals_add(struct intervals *v, int64_t start, int64_t end, bool nest,
                                uint64_t *used, uint64_t budget);

/* Frees the memory. Afterwards nothing fits that starts before `until`, or before the end of what
 * was remembered. */
void intervals_forget(struct intervals *v, int64_t until, uint64_t *used);
