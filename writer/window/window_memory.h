/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a window as a whole: its peaks, who held them, and failed allocations. cprof thread. */
#pragma once

#include "writer/window/window.h"

/* Takes a REC_MEMORY or REC_OUT_OF_MEMORY record. The event of the latter is written at
 * settlement. */
void window_memory_take(struct window *w, const struct window_shared *shared,
                        const struct record_owner *owner, const struct record *r);

/* All records before `ticks` are taken: settles them. */
void window_memory_settle(struct window *w, const struct window_shared *shared, uint64_t ticks);

/* Tensor memory of a device, in bytes. */
struct window_memory_use {
    char device[64]; /* "CPU", "CUDA:0" */
    double peak, last;
};

/* Writes the use of at most `most` devices; returns their number. */
unsigned window_memory_uses(const struct window *w, struct window_memory_use *out, unsigned most);

/* Appends `"memory": […], ` to the account; nothing without memory records. */
void window_memory_account(const struct window *w, struct buf *b);
