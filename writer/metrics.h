/* SPDX-License-Identifier: Apache-2.0 */
/* The run's state as a file in Prometheus' text format, for node_exporter's textfile collector. The
 * file is replaced as a whole every METRICS_S seconds, and removed at the end. A metric whose
 * source is off is not in it. Whatever goes wrong ends the metrics alone. cprof thread, but for
 * metrics_start(). */
#pragma once

#include "writer/window/window.h"
#include "writer/writer.h"

#define METRICS_S 10

/* Takes the options. The waking thread, before the cprof thread starts. */
void metrics_start(const struct writer_options *options);

/* Whether there is a file to keep up to date. */
bool metrics_run(void);

/* Takes each edge, recorded or not. */
void metrics_edge(const struct step_edge *edge);

/* Takes the rates and the memory of a window that is finished. saved: as a trace. */
void metrics_window(const struct window *w, bool saved);

/* Writes the file if it is time. */
void metrics_pass(void);

/* The process ends: removes the file. */
void metrics_end(void);
