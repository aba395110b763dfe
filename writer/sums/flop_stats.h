/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs of a window by step and device, as counted for its operators and library calls. A span
 * counts for the step in which it began. For the window also: how long its kernels ran, and how
 * much of that time has a count. The numbers are in the trailer, so each flush has the latest. The
 * last FLOP_STEPS steps may still change; older ones are settled in the body, and later counts for
 * them go to the window only ("late"). cprof thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/record/record.h"
#include "writer/json/json.h"
#include "writer/sums/energy.h"
#include "writer/writer.h"

#define FLOP_STEPS 64u /* steps whose numbers may still change */

struct flop_stats;

/* Makes the sums of a window that begins at start_ns of its file. NULL: no memory. */
struct flop_stats *flop_stats_make(int64_t start_ns);

/* Frees the sums. s may be NULL, here and below. */
void flop_stats_free(struct flop_stats *s);

/* Takes a span, in the order of ends in the log's ring. at: its place in the file. */
void flop_stats_span(struct flop_stats *s, struct thread_log *log, const struct record *r,
                     const struct json_place *at);

/* Takes a kernel that ran for ran_ns. counted: the call that launched it has a FLOP count. */
void flop_stats_kernel(struct flop_stats *s, uint32_t device, int64_t ran_ns, bool counted);

/* Takes a library call that began at ns, once its kernel has shown the device. where: its
 * EXTRA_DTYPE. */
void flop_stats_placed(struct flop_stats *s, int64_t ns, uint32_t device, uint64_t where,
                       uint64_t flops, uint64_t bytes);

/* Work of a counted span that was captured into a CUDA graph. */
struct captured {
    uint64_t flops, bytes;
    uint32_t where;   /* EXTRA_DTYPE */
    uint32_t kernels; /* how many of its nodes are kernels */
    uint32_t refs;    /* references: nodes, and nodes.c during capture */
};

/* A graph launched at ns repeats captured work. */
void flop_stats_replayed(struct flop_stats *s, int64_t ns, uint32_t device,
                         const struct captured *work);

/* The step [start_ns, end_ns) is over. Appends the counters that this settles to `body`. */
void flop_stats_step(struct flop_stats *s, int64_t start_ns, int64_t end_ns,
                     const struct writer_options *options, uint32_t pid, struct buf *body);

/* Appends the counters of unsettled steps, and of the rest of the window until end_ns (-1: the
 * window goes on). */
void flop_stats_counters(const struct flop_stats *s, int64_t end_ns,
                         const struct writer_options *options, uint32_t pid, struct buf *b);

/* Rates of a device over a window. */
struct flop_rates {
    char device[16];        /* "CPU", "CUDA:0" */
    double per_second;      /* FLOPs */
    double model, hardware; /* MFU and HFU, 0 to 1; below 0: not known */
};

/* Writes the rates of at most `most` devices over duration_ns; returns their number. */
unsigned flop_stats_rates(const struct flop_stats *s, int64_t duration_ns,
                          const struct writer_options *options, struct flop_rates *out,
                          unsigned most);

/* Appends `"flops": {…}, ` to the account. duration_ns: of the window so far. spent: by GPU. */
void flop_stats_account(const struct flop_stats *s, int64_t duration_ns,
                        const struct energy_use spent[GPU_STATES],
                        const struct writer_options *options, struct buf *b);
