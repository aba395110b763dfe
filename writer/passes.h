/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of the cprof thread, which move records from rings into files. */
#pragma once

#include "writer/writer.h"

/* Takes the options, which must stay valid. The waking thread, before the cprof thread starts. */
void passes_start(const struct writer_options *options);

/* Prepares the first pass. cprof thread. */
void passes_begin(void);

/* Does one pass. stopping: the program ends. cprof thread. */
void passes_do(bool stopping);

/* The longest pause before the next pass in ms; -1: until woken. cprof thread. */
int passes_pause_ms(void);

/* Exit: does passes until all files are whole or the time is over. cprof thread. */
void passes_finish(void);

/* Stops recording and writing permanently. Any thread. */
void passes_fail(void);

/* Keeps markers of steps to skip from now on (writer_want_skipped()). False: already on. Any
 * thread. */
bool passes_want_skipped(void);
