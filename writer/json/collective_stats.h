/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes and bandwidth of communication library calls (spans of category CAT_COLLECTIVE), for their
 * rows and for the later rows of their kernels. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

struct transfer {
    double bytes; /* of its larger side; 0: unknown, or several transfers in one */
    /* bus bytes per byte, as in nccl-tests (doc/PERFORMANCE.md) */
    double bus;
    /* The transfer ends with its call. Not NCCL's, which its kernels do, nor immediate ones. */
    bool blocking;
    /* `"key": value, …` as in the call's own row; not terminated; set by collective_stats_find() */
    const char *args;
    size_t args_len;
    const uint8_t *data; /* the same as DATA_ARGS; likewise */
    size_t data_len;
};

/* Reads DATA_ARGS of n bytes, all but `args`. False: no transfer. */
bool collective_stats_read(const uint8_t *data, size_t n, struct transfer *out);

/* Remembers a span that has ended. The newest 16384 are kept. */
void collective_stats_note(const struct record *r);

/* A running span makes nodes of a CUDA graph: its transfer is kept apart, in 16384 places of its
 * own. 0: ignored. */
void collective_stats_captured(uint64_t span);

/* Finds the transfer of the span with this id. False: no collective, not ended, or forgotten.
 * out->args is valid until the next collective_stats_note(). */
bool collective_stats_find(uint64_t span, struct transfer *out);

/* Appends `, "Algorithm bandwidth (GB/s)": …, "Bus bandwidth (GB/s)": …`. Nothing when bytes or the
 * duration in ns are 0. */
void collective_stats_bandwidth(struct buf *b, const struct transfer *t, int64_t duration_ns);
