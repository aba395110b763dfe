/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel did the work of a span with a FLOP count. A kernel shows the span's FLOPs when it is
 * the only one that the span launched. Of several kernels none shows them, so that no work shows
 * twice. Kernels therefore wait until the records after theirs have come. Bounded; cprof thread. */
#pragma once

#include "writer/join/correlation.h"
#include "writer/join/timeline.h"

/* counted spans that are remembered; a new one replaces one that has not launched for long */
#define ATTRIBUTION_MOST 65536u
#define ATTRIBUTION_WAIT 32768u /* kernels that wait: two flushes at 60,000 kernels a second */

struct share {
    uint64_t span; /* id */
    /* id of the outermost counted span around it, or its own: totals count that one */
    uint64_t outermost;
    uint64_t flops, bytes;
    uint64_t used;     /* number of the last launch in it, counted over all spans */
    uint32_t where;    /* EXTRA_DTYPE */
    uint16_t launches; /* kernels launched */
    bool placed;       /* totals have counted it, on the device of its first kernel */
};

/* A kernel is launched inside the span. Returns the id of the innermost counted span around the
 * launch; 0: none. */
uint64_t attribution_launch(struct timeline *t, uint64_t span);

/* The entry of a counted span; NULL: replaced. */
struct share *attribution_find(uint64_t span);

/* The entry that totals count for this span, at the first call only; NULL afterwards. */
const struct share *attribution_place(uint64_t span);

/* Lets a kernel wait. False: too many wait, or its FLOPs are not its own already. */
bool attribution_wait(const struct call *c, const struct gpu_record *r);

/* How many kernels wait. */
size_t attribution_waiting(void);

/* Removes waiting kernels, of the first n or of one window (window != 0), and gives each to put()
 * with its own FLOPs; 0: unknown. */
void attribution_settle(size_t n, uint64_t window,
                        void (*put)(struct call *c, const struct gpu_record *r, uint64_t flops,
                                    void *),
                        void *arg);
