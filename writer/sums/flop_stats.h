/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of a window by step and device: what its operators and library calls were counted to do. A
 * span counts for the step in which it began. Of the window also how long its kernels ran, and how
 * much of that time belongs to something that was counted. The numbers stand in the trailer, so
 * that each flush has them as they are known by then; steps beyond the last FLOP_STEPS are settled
 * in the body, and what comes for them later counts for the window only ("late"). cprof thread. */
#ifndef WRITER_SUMS_FLOP_STATS_H
#define WRITER_SUMS_FLOP_STATS_H

#include "writer/base/base.h"
#include "writer/record/record.h"
#include "writer/json/json.h"
#include "writer/writer.h"

#define FLOP_STEPS 64u /* whose numbers may still change */

struct flop_stats;

/* Empty, for a window that begins at start_ns of its file. NULL: no memory. */
struct flop_stats *flop_stats_make(int64_t start_ns);

/* NULL is allowed, here and below. */
void flop_stats_free(struct flop_stats *s);

/* A span of the log's ring, in the order of their ends; where it stands in the file. */
void flop_stats_span(struct flop_stats *s, struct thread_log *log, const struct record *r,
                     const struct json_place *at);

/* A kernel that ran for so long on a device; counted: launched by something that has a count. */
void flop_stats_kernel(struct flop_stats *s, uint32_t device, int64_t ran_ns, bool counted);

/* The device of a library call that began at ns is known now, from its kernel. where: its
 * EXTRA_DTYPE. */
void flop_stats_placed(struct flop_stats *s, int64_t ns, uint32_t device, uint64_t where,
                       uint64_t flops, uint64_t bytes);

/* A counted span whose work was captured. */
struct captured {
    uint64_t flops, bytes;
    uint32_t where;   /* EXTRA_DTYPE */
    uint32_t kernels; /* nodes of it that are kernels */
    uint32_t refs;    /* who points to it: nodes, and nodes.c while it is being captured */
};

/* A graph launched at ns did again what was captured into it. */
void flop_stats_replayed(struct flop_stats *s, int64_t ns, uint32_t device,
                         const struct captured *work);

/* A step is over: [start_ns, end_ns). Counters that are settled by that are appended to `body`. */
void flop_stats_step(struct flop_stats *s, int64_t start_ns, int64_t end_ns,
                     const struct writer_options *options, uint32_t pid, struct buf *body);

/* Appends the counters of the steps that are not settled yet, and of what lies behind the last one
 * until end_ns (-1: the window goes on). */
void flop_stats_counters(const struct flop_stats *s, int64_t end_ns,
                         const struct writer_options *options, uint32_t pid, struct buf *b);

/* Appends `"flops": {…}, ` for the account of the window, which lasted so long. */
void flop_stats_account(const struct flop_stats *s, int64_t duration_ns,
                        const struct writer_options *options, struct buf *b);

#endif
