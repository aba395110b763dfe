/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the listener of writer.h. Without one, each call costs a pointer test. cprof thread. */
#pragma once

#include "writer/record/record.h"
#include "writer/window/window.h"

/* Once per pass, before all other calls: handlers that came since the last pass get ready. */
void observers_begin(void);

/* The rings are drained: tells the edges and windows of earlier passes. */
void observers_drained(uint64_t pass);

/* Takes an edge in this pass, before its records. */
void observers_edge(const struct step_edge *edge, uint64_t pass);

/* Takes a record as it leaves its ring, whether or not a file takes it. */
void observers_record(const struct record_owner *owner, const struct record *r);

/* Takes a record that was held and now belongs to the trace of a program without step marks. */
void observers_replay(const struct record_owner *owner, const struct record *r);

/* A window opens in this pass; all records of a window have come. */
void observers_window_open(const struct window *w, uint64_t pass);
void observers_window_close(const struct window *w); /* as above */

/* Tells the absolute path of a foreign Chrome JSON trace that was handed in. */
void observers_file(const char *path);

/* Exit, after all files are finished: tells what waits, then the end. */
void observers_end(void);
