/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that have ended and are not written yet: where they end faster than the disk, or a
 * processor that is not to be had, lets them be written, the next ones are left out, so that the
 * memory of all has a limit. cprof thread. */
#ifndef WRITER_WINDOW_BACKLOG_H
#define WRITER_WINDOW_BACKLOG_H

#include "writer/window/window.h"

/* Whether a window may begin with this edge, behind those in the list. False, with one line for the
 * process: they take too much; then none begins in the middle of what would have been one;
 * without_end: there is no such thing, because no edge would ever end it. */
bool backlog_takes_one(const struct window *windows, const struct step_edge *edge,
                       bool without_end);

/* True when the answer was false last. */
bool backlog_left_out(void);

/* Steps that were to be recorded began while too much waited. to: the oldest window whose losses
 * count; NULL: only the exit line has them. cprof thread. */
void backlog_count(struct window *to, uint64_t n);

/* What threads lost of what is left out, up to this edge. cprof thread, at each edge. */
void backlog_count_losses(struct window *to, const struct step_edge *edge);

#endif
