/* SPDX-License-Identifier: Apache-2.0 */
/* The pen: who holds it may make a file one that is not whole for a moment. */
#ifndef WRITER_FILE_PEN_H
#define WRITER_FILE_PEN_H

#include <stdbool.h>

/* Nothing has been written yet. Before the cprof thread is started. */
void pen_start(void);

/* Stand around each write. Once the exiting thread has stopped waiting, pen_take() does not return:
 * the process is about to end. done: something is on disk now. cprof thread. */
void pen_take(void);
void pen_give(bool done); /* as above */

/* Takes the pen for good, behind the write that is under way. False: that write does not end.
 * Exiting thread. */
bool pen_keep(void);

/* Whether any write was done. Any thread. */
bool pen_has_written(void);

#endif
