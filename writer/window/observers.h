/* SPDX-License-Identifier: Apache-2.0 */
/* The listener (writer.h) as the rest of writer/ calls it. When nobody listens each call is one
 * pointer test. cprof thread. */
#ifndef WRITER_WINDOW_OBSERVERS_H
#define WRITER_WINDOW_OBSERVERS_H

#include "writer/record/record.h"
#include "writer/window/window.h"

/* The rings have been looked at, and nothing of what was found is told yet: who has come before
 * that makes itself ready. */
void observers_begin(void);

/* They are drained: what the edges of earlier passes said is told. */
void observers_drained(uint64_t pass);

/* An edge that is taken in this pass; before its records are. */
void observers_edge(const struct step_edge *edge, uint64_t pass);

/* A record as it leaves its ring, whether a file takes it or not. */
void observers_record(const struct record_owner *owner, const struct record *r);

/* The same for a record that was held and now stands in the trace of a program without step
 * marks. */
void observers_replay(const struct record_owner *owner, const struct record *r);

/* A window opens (in this pass), and all of its records have come. */
void observers_window_open(const struct window *w, uint64_t pass);
void observers_window_close(const struct window *w); /* as above */

/* A foreign Chrome JSON trace has been handed in: tells its absolute path. For who takes such
 * files; cprof thread. */
void observers_file(const char *path);

/* Exit: all files are finished. */
void observers_end(void);

#endif
