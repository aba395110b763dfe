/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process: what the cprof thread still does when its files are whole, and how long the
 * exiting thread waits for that. */
#ifndef WRITER_SHUTDOWN_H
#define WRITER_SHUTDOWN_H

#include "writer/writer.h"

/* Takes the options, which stay where they are. Before the cprof thread is started; the thread that
 * wakes cprof. */
void shutdown_start(const struct writer_options *options);

/* All files are whole: does what follows them, lets go of CUPTI, and says so to writer_finish().
 * cprof thread. */
void shutdown_run(void);

#endif
