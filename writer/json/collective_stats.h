/* SPDX-License-Identifier: Apache-2.0 */
/* What was sent by calls of communication libraries (spans of category CAT_COLLECTIVE), for their
 * rows and for those of the kernels that they launched, which come later. cprof thread. */
#ifndef WRITER_JSON_COLLECTIVE_STATS_H
#define WRITER_JSON_COLLECTIVE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* One transfer. */
struct transfer {
    double bytes; /* of its larger side; 0: not known, or several transfers in one */
    /* share of them that crosses each wire of a ring, as nccl-tests has it (doc/PERFORMANCE.md) */
    double bus;
    /* it is over when its call is: not NCCL's, which its kernels do, nor an immediate one */
    bool blocking;
    /* `"key": value, …` as on the call's own row; not terminated; of collective_stats_find() */
    const char *args;
    size_t args_len;
};

/* Reads DATA_ARGS of n bytes; `args` is left out. False: they describe no transfer. */
bool collective_stats_read(const uint8_t *data, size_t n, struct transfer *out);

/* Takes note of a span that has ended. The newest 16384 are kept. */
void collective_stats_note(const struct record *r);

/* A span under way makes nodes of a CUDA graph: what it sends is kept longer, 16384 such spans. 0:
 * nothing. */
void collective_stats_captured(uint64_t span);

/* What the span with this id sent; false: it is no collective, has not ended yet, or is too old.
 * out->args is valid until the next collective_stats_note(). */
bool collective_stats_find(uint64_t span, struct transfer *out);

/* Appends `, "Algorithm bandwidth (GB/s)": …, "Bus bandwidth (GB/s)": …`; nothing when bytes or the
 * duration in ns are 0. */
void collective_stats_bandwidth(struct buf *b, const struct transfer *t, int64_t duration_ns);

#endif
