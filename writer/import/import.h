/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign traces that the program hands in (writer_import() in writer.h). Each file is read twice,
 * a slice per pass: first to validate it and find its times, then into its window. That is the
 * window that was open when the file was handed in, or the next one. cprof thread, except
 * import_add(). */
#pragma once

#include "writer/window/window.h"

/* Opens the file and queues it. False, with a log line: unreadable, not a regular file, or too many
 * wait. Any thread; takes a lock. */
bool import_add(const char *path);

/* Works for some milliseconds. windows: oldest first. known: ticks up to which the ends of windows
 * are known; files handed in later wait. stopping: nothing else is left to do, so slices are
 * longer. */
void import_pass(struct window *windows, uint64_t known, const struct window_shared *shared,
                 bool stopping);

/* True while there is something to read: the next pass should come soon. */
bool import_busy(void);

/* True while the window still has to take a file that was handed in before its end. */
bool import_holds(const struct window *windows, const struct window *w);

/* The deadline at exit is near, or no window will come: logs and forgets the files that are not
 * merged. */
void import_give_up(void);

/* Forgets all files silently, after a failed write was logged. */
void import_drop(void);
