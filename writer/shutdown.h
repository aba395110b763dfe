/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process: the work of the cprof thread after its files are whole, and how long the
 * exiting thread waits for it. */
#pragma once

#include "writer/writer.h"

/* Takes the options, which must stay valid. The waking thread, before the cprof thread starts. */
void shutdown_start(const struct writer_options *options);

/* All files are whole: does the work that follows, releases CUPTI, and lets writer_finish() return.
 * cprof thread. */
void shutdown_run(void);
