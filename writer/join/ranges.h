/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranges that users mark (record_function, markers) ran on the GPU: for each range and
 * each stream the time from the first to the last of the kernels launched inside, which becomes a
 * gpu_user_annotation row. cprof thread. */
#ifndef WRITER_JOIN_RANGES_H
#define WRITER_JOIN_RANGES_H

#include "writer/join/timeline.h"

#define RANGE_NONE    0u
#define RANGE_UNKNOWN UINT32_MAX /* nobody asked yet */

/* One range on one stream. */
struct range_extent {
    const char *name; /* not terminated */
    uint32_t name_len;
    uint32_t device, stream;
    uint64_t id;         /* of the span */
    uint64_t start, end; /* ticks */
};

/* The innermost range at or above a span; the answer is kept in the note. */
uint32_t ranges_of(struct timeline *t, struct note *note);

/* A kernel, copy or fill of a launch made inside `range` (and so inside those around it), in the
 * file of this window. */
void ranges_extend(uint32_t range, uint64_t window, uint32_t device, uint32_t stream,
                   uint64_t start, uint64_t end);

/* Calls each(), unless it is NULL, for what the window's launches did, and forgets it. */
void ranges_take(uint64_t window, void (*each)(const struct range_extent *, void *), void *arg);

/* Extents for which there was no room, since last asked. */
uint64_t ranges_refused(void);

#endif
