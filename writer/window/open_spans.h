/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of a window that are open now. Its file has them as unfinished. cprof thread. */
#pragma once

#include "writer/window/window.h"

/* True while a span that began in the window is open on any thread. */
bool window_has_open_spans(const struct window *w);

/* Writes the spans that are open now to w->open and their ids to w->open_ids. Replaces the previous
 * ones. */
void window_read_open(struct window *w, const struct window_shared *shared);

/* Settles which spans the file has as unfinished: those that are open now. Spans that closed before
 * are in the rings: drain these once more before window_finish(). */
void window_settle(struct window *w, const struct window_shared *shared);

/* True when the window that open_ids is of was settled with this span open. */
bool window_left_open(const struct buf *open_ids, uint64_t id);
