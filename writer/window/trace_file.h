/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a window: flushed so that it is always a valid trace, and named when complete. cprof
 * thread. */
#pragma once

#include "writer/window/window.h"

/* Writes what has come since the last flush; the first call makes the file. A held window's file is
 * prestep.PID.part; at options->held_bytes it loses its older half, which is counted. 0 or errno;
 * sets w->full at max_trace_bytes. */
int window_flush(struct window *w, const struct window_shared *shared);

/* Flushes for the last time and gives the file its final name, which is written to `path`
 * (PATH_MAX). 0 or errno; after an error the .part file stays. */
int window_finish(struct window *w, const struct window_shared *shared, char *path);

/* Writes a copy of the flight recorder's file, packed, to `path`. 0 or errno. */
int window_copy(struct window *w, const struct window_shared *shared, const char *path);

/* Removes the .part file. */
void window_discard(struct window *w);
