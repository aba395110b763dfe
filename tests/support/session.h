/* SPDX-License-Identifier: Apache-2.0 */
/* A recording from start to exit, driven through writer/writer.h as preload/ does. The test's main
 * thread marks steps; files go to a folder of the test's own. One session per test process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/trace.h"
#include "writer/writer.h"

#define SESSION_GATE (GATE_SPANS | GATE_MARKERS | GATE_MEMORY | GATE_SHAPES)

/* The options for writer_start(). Change them before session_start(). */
extern struct writer_options session_options;

/* The folder of the files, without a '/' at its end. A test may change it. */
extern char session_folder[128];

/* Fixture: makes the folder, fills in the options, and captures stderr and stdout. */
void session_setup(void);

/* Fixture: removes the folder. */
void session_teardown(void);

/* writer_start() and writer_run(). */
void session_prepare(void);

/* Makes the first edge. keep: step 0 is kept for a program without marks. */
void session_begin(enum action first, bool keep);

/* session_prepare() and session_begin(). */
void session_start(enum action first, bool keep);

/* Ends a step and begins the next one with this action. Returns the edge's ticks. */
uint64_t session_step(enum action next);

/* Makes an edge that tells observers the current state of training, as steps_tell() does. */
void session_tell(void);

/* Makes the last edge and calls writer_finish(). Returns the edge's ticks. */
uint64_t session_end(void);

/* The trace that was saved when `batch` steps had ended. The test fails without it. */
struct trace session_trace(int64_t batch);

/* Number of files in the folder whose names contain `part`. */
unsigned session_files(const char *part);

/* Waits until the names of exactly n files contain `part`. The test fails after 20 s. */
void session_await(const char *part, unsigned n);

/* Waits until the trace for `batch` ended steps has its final name. The test fails after 20 s. */
void session_await_trace(int64_t batch);

/* Sleeps, under valgrind three times as long. */
void session_sleep(unsigned ms);

/* Opens a span on this thread. Its name is its key. */
struct open_span *session_open(const char *name);

/* Closes the span with this name as its key. */
void session_close(const char *name);

/* Opens and closes a span on this thread. */
void session_span(const char *name);

/* Records an instant on this thread. */
void session_instant(const char *name, uint8_t flags);
