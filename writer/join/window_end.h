/* SPDX-License-Identifier: Apache-2.0 */
/* The last rows and counts of a window's GPU side, for join_settle(). cprof thread. */
#pragma once

#include "writer/join/join.h"

/* Counts `missing` launches without a kernel, unless other losses explain them. Warns once when no
 * graph launch had any work. */
void window_end_count(struct window *w, uint64_t missing);

/* Writes a row for each range of the user on each stream that it used. */
void window_end_annotate(const struct join_windows *in, struct window *w);
