/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel did the work of a counted span. A kernel gets the span's FLOPs on its row when it is
 * the only one that the span launched; of several, none does, so that no work shows twice. To know
 * that, kernels of counted spans wait until the records behind theirs have come. Bounded; cprof
 * thread. */
#ifndef WRITER_JOIN_ATTRIBUTION_H
#define WRITER_JOIN_ATTRIBUTION_H

#include "writer/join/correlation.h"
#include "writer/join/timeline.h"

/* counted spans that are remembered; a later one takes the place of one that has not launched for
 * long */
#define ATTRIBUTION_MOST 65536u
#define ATTRIBUTION_WAIT 32768u /* kernels that wait: two flushes of 60,000 a second */

struct share {
    uint64_t span; /* id */
    /* id of the counted span that this is a part of, or its own: what totals are made of */
    uint64_t outermost;
    uint64_t flops, bytes;
    uint64_t used;     /* number of the last launch or of one inside, of all */
    uint32_t where;    /* EXTRA_DTYPE */
    uint16_t launches; /* of kernels */
    bool placed;       /* its first kernel has told its device */
};

/* Something inside the span launches a kernel. Returns the id of the innermost span around it with
 * a count; 0: none. */
uint64_t attribution_launch(struct timeline *t, uint64_t span);

/* What is known of a counted span; NULL: nothing any more. */
struct share *attribution_find(uint64_t span);

/* What totals count of it, the first time that this is asked; NULL after that. */
const struct share *attribution_place(uint64_t span);

/* Lets a kernel wait. False: too many do, or there is nothing to wait for. */
bool attribution_wait(const struct call *c, const struct gpu_record *r);

/* Kernels that wait. */
size_t attribution_waiting(void);

/* Takes the first n that wait, or those of one window (window != 0), and gives each to put() with
 * the FLOPs that are its own; 0: not known. */
void attribution_settle(size_t n, uint64_t window,
                        void (*put)(struct call *c, const struct gpu_record *r, uint64_t flops,
                                    void *),
                        void *arg);

#endif
