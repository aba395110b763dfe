/* SPDX-License-Identifier: Apache-2.0 */
/* The right to write trace files. During a write, a file may be incomplete for a moment. */
#pragma once

#include <stdbool.h>

/* Resets it. Before the cprof thread starts. */
void pen_start(void);

/* Put these around each write. pen_take() does not return once the exiting thread has stopped
 * waiting, because the process is about to end. done: the write has succeeded. cprof thread. */
void pen_take(void);
void pen_give(bool done); /* as above */

/* Takes the pen for good, after the write that is going on. False: that write does not end. Exiting
 * thread. */
bool pen_keep(void);

/* True when any write was done. Any thread. */
bool pen_has_written(void);
