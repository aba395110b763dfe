/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, flushes, finishes and drops the file of a window. cprof thread. */
#pragma once

#include "writer/window/window.h"

/* Writes what has come since the last flush; the first call makes the file. False, with a log line:
 * the file cannot be made or written, an earlier run is in the way, or the disk is nearly full.
 * Recording must stop then. */
bool save_flush(struct window *w, const struct window_shared *shared);

/* Flushes for the last time and gives the file its final name. False as above. */
bool save_finish(struct window *w, const struct window_shared *shared);

/* Gives up the window's file. Counts its losses and unwritten events, once. */
void save_drop(struct window *w);

/* The window is empty and leaves no file: adds its losses to the run's total. */
void save_none(const struct window *w);
