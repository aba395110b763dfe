/* SPDX-License-Identifier: Apache-2.0 */
/* Joins CUPTI's calls with hooked calls and operators, and writes their rows. A call whose thread's
 * ring is not drained up to its time waits. cprof thread. */
#pragma once

#include "writer/join/join.h"

/* The window that is being finished; NULL: none. */
extern const struct window *join_settled;

/* True when the record must be written now, because its window is being finished. Records of other
 * open windows can wait. */
bool join_is_last_chance(const struct join_windows *in, const struct gpu_record *r);

/* Takes CUPTI's record of a call. */
void call_rows_take(const struct join_windows *in, const struct gpu_record *r);

/* Takes the calls again that waited for a ring. */
void call_rows_retry(const struct join_windows *in);

/* Writes driver calls that no runtime call has claimed: those whose window is being finished and,
 * with `waited`, those that came before this batch. */
void call_rows_settle_drivers(const struct join_windows *in, bool waited);

/* Writes the window's hooked calls for which no record has come. */
void call_rows_settle_hooks(const struct join_windows *in, struct window *w);

/* Lets the window's hooked calls wait no longer. Another window may have markers of the same time,
 * so hooks are found by time. */
void call_rows_forget_hooks(struct window *w);
