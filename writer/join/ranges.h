/* SPDX-License-Identifier: Apache-2.0 */
/* The user's ranges (record_function, markers) on the GPU. For each range and stream: the time from
 * the first to the last kernel launched inside, written as a gpu_user_annotation row. cprof
 * thread. */
#pragma once

#include "writer/join/timeline.h"

#define RANGE_NONE    0u
#define RANGE_UNKNOWN UINT32_MAX /* not looked up yet */

/* One range on one stream. */
struct range_extent {
    const char *name; /* not terminated */
    uint32_t name_len;
    uint32_t device, stream;
    uint64_t id;         /* of the span */
    uint64_t start, end; /* ticks */
};

/* The innermost range at or above a span; kept in the note. */
uint32_t ranges_of(struct timeline *t, struct note *note);

/* Adds a kernel, copy or fill launched inside `range` to it and to the ranges around it. window:
 * serial of the window whose file has it. */
void ranges_extend(uint32_t range, uint64_t window, uint32_t device, uint32_t stream,
                   uint64_t start, uint64_t end);

/* What XLA calls some work. Not terminated; length 0: unknown. */
struct hlo {
    struct text op, module,
        source; /* source: the line of the program that the instruction is from */
};

/* The instruction and the module of the innermost ranges that tell any: XLA's NVTX ranges
 * `Thunk:#hlo_op=...#` and `XlaModule:#hlo_module=...#`. */
struct hlo ranges_hlo(uint32_t range);

/* The same, of a range's name alone, which source_len bytes of its source line follow. */
struct hlo ranges_hlo_of(const char *name, uint32_t len, uint32_t source_len);

/* Removes the extents of the window and gives each to each(), unless that is NULL. */
void ranges_take(uint64_t window, void (*each)(const struct range_extent *, void *), void *arg);

/* Extents without room, since the last call. */
uint64_t ranges_refused(void);
