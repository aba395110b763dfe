/* SPDX-License-Identifier: Apache-2.0 */
/* From a window to its file: what is asked before it is made, flushes, and the name at the end.
 * Everything here runs on the cprof thread. */
#ifndef WRITER_WINDOW_SAVE_H
#define WRITER_WINDOW_SAVE_H

#include "writer/window/window.h"

/* Writes what has come since the last flush; makes the file at the first. False, with a line: the
 * file cannot be made or written, or the disk is nearly full; nothing more may be recorded. */
bool save_flush(struct window *w, const struct window_shared *shared);

/* The last flush and the name. False as above. */
bool save_finish(struct window *w, const struct window_shared *shared);

/* The window gets no trace: what its file does not hold is counted as lost, once. */
void save_drop(struct window *w);

/* The window leaves no file, because nothing is in it: what was lost of it is counted all the
 * same. */
void save_none(const struct window *w);

#endif
