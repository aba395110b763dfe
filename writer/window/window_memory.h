/* SPDX-License-Identifier: Apache-2.0 */
/* What a window tells about memory as a whole: its peaks, who held them, and allocations that
 * failed. cprof thread. */
#ifndef WRITER_WINDOW_WINDOW_MEMORY_H
#define WRITER_WINDOW_WINDOW_MEMORY_H

#include "writer/window/window.h"

/* Takes a REC_MEMORY or REC_OUT_OF_MEMORY of the window; the event of the latter is written when it
 * is settled. */
void window_memory_take(struct window *w, const struct window_shared *shared,
                        const struct record_owner *owner, const struct record *r);

/* Everything recorded before `ticks` has been taken. */
void window_memory_settle(struct window *w, const struct window_shared *shared, uint64_t ticks);

/* Appends `"memory": […], ` to the account; nothing when nothing was recorded. */
void window_memory_account(const struct window *w, struct buf *b);

#endif
