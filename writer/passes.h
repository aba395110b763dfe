/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of the cprof thread: what moves records from rings into files. */
#ifndef WRITER_PASSES_H
#define WRITER_PASSES_H

#include "writer/writer.h"

/* Takes the options, which stay where they are. Waking thread, before the cprof thread starts. */
void passes_start(const struct writer_options *options);

/* What the cprof thread does before its first pass. */
void passes_begin(void);

/* One pass. stopping: the program ends. cprof thread. */
void passes_do(bool stopping);

/* The longest time to wait before the next pass, in ms; -1: until woken. cprof thread. */
int passes_pause_ms(void);

/* Exit: passes until all files are whole or the time is over. cprof thread. */
void passes_finish(void);

/* Nothing more is recorded or written. Any thread. */
void passes_fail(void);

/* From now on markers of steps to skip are kept; see writer_want_skipped(). False: they were
 * before. Any thread. */
bool passes_want_skipped(void);

#endif
