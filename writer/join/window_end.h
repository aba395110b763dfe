/* SPDX-License-Identifier: Apache-2.0 */
/* The last rows and counts of a window's GPU side, for join_settle(). cprof thread. */
#ifndef WRITER_JOIN_WINDOW_END_H
#define WRITER_JOIN_WINDOW_END_H

#include "writer/join/join.h"

/* Counts launches without a kernel; `missing` of them are known. Says once when nothing came of any
 * graph. */
void window_end_count(struct window *w, uint64_t missing);

/* Writes a row for each range of the user and each stream on which its kernels ran. */
void window_end_annotate(const struct join_windows *in, struct window *w);

#endif
