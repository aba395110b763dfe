/* SPDX-License-Identifier: Apache-2.0 */
/* Limits the memory of closed windows that are not written yet. When windows end faster than the
 * disk takes them, the next ones are left out. cprof thread. */
#pragma once

#include "writer/window/window.h"

/* True when a window may begin at this edge. False, with one log line per process: the windows in
 * the list take too much memory. After a refusal none begins in the middle of the refused window,
 * unless without_end: no edge would end it. */
bool backlog_takes_one(const struct window *windows, const struct step_edge *edge,
                       bool without_end);

/* True when backlog_takes_one() last returned false. */
bool backlog_left_out(void);

/* Counts n steps that were left out. to: the oldest window whose losses count; NULL: only the exit
 * line reports them. cprof thread. */
void backlog_count(struct window *to, uint64_t n);

/* While windows are left out, counts what threads lost since the last edge. cprof thread, at each
 * edge. */
void backlog_count_losses(struct window *to, const struct step_edge *edge);
