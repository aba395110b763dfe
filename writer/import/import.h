/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign traces that the program hands in (writer_import() in writer.h): read twice, a slice in
 * each pass of the cprof thread, first to know that the whole file is a trace and what its times
 * are, then into the window that was open when it was handed in, or the next one. cprof thread but
 * import_add(). */
#ifndef WRITER_IMPORT_IMPORT_H
#define WRITER_IMPORT_IMPORT_H

#include "writer/window/window.h"

/* Opens the file and puts it into the queue. False, with a line: it cannot be read, is no regular
 * file, or too many wait. Any thread; takes a lock. */
bool import_add(const char *path);

/* Works for some milliseconds. windows: oldest first. known: ticks; the ends of windows before that
 * are known, so a file that was handed in later waits. stopping: nothing else is left to do, so for
 * longer. */
void import_pass(struct window *windows, uint64_t known, const struct window_shared *shared,
                 bool stopping);

/* True while something is to be read now, so that the next pass should come soon. */
bool import_busy(void);

/* True while the window is to take a file that was handed in before its end. */
bool import_holds(const struct window *windows, const struct window *w);

/* Exit's deadline is near, or no window comes any more: says what is not merged, and forgets it. */
void import_give_up(void);

/* Forgets all of it without a word: nothing is written any more, which has been said. */
void import_drop(void);

#endif
