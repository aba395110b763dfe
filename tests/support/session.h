/* SPDX-License-Identifier: Apache-2.0 */
/* A recording from start to exit, driven through writer/writer.h as preload/ drives it: steps are
 * marked by the test's main thread, files come into a folder of the test's own. One per test
 * process. */
#ifndef TESTS_SUPPORT_SESSION_H
#define TESTS_SUPPORT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/trace.h"
#include "writer/writer.h"

#define SESSION_GATE (GATE_SPANS | GATE_MARKERS | GATE_MEMORY | GATE_SHAPES)

/* What session_start() hands over; to be changed before it. */
extern struct writer_options session_options;

/* The folder of the files; no '/' at its end. A test may point it elsewhere. */
extern char session_folder[128];

/* Fixture: makes the folder, fills in the options, and captures stderr and stdout. */
void session_setup(void);

/* Fixture: removes the folder. */
void session_teardown(void);

/* writer_start() and writer_run(). */
void session_prepare(void);

/* The first edge. keep: step 0 is kept for a program without marks. */
void session_begin(enum action first, bool keep);

/* Both. */
void session_start(enum action first, bool keep);

/* Ends a step and begins the next one with this action. Returns the edge's ticks. */
uint64_t session_step(enum action next);

/* Tells who listens where training stands now, as steps_tell() does. */
void session_tell(void);

/* The last edge, and writer_finish(). Returns the edge's ticks. */
uint64_t session_end(void);

/* The trace that was saved when `batch` steps had ended; the test fails when there is none. */
struct trace session_trace(int64_t batch);

/* Files in the folder whose names hold `part`. */
unsigned session_files(const char *part);

/* Waits until so many files' names hold `part`; the test fails when they do not within 20 s. */
void session_await(const char *part, unsigned n);

/* Waits until the trace that was saved when `batch` steps had ended is whole; the test fails when
 * it is not within 20 s. */
void session_await_trace(int64_t batch);

/* Waits. */
void session_sleep(unsigned ms);

/* Opens a span on this thread; its name is its key. */
struct open_span *session_open(const char *name);

/* Closes it. */
void session_close(const char *name);

/* One span on this thread, from its beginning to its end. */
void session_span(const char *name);

/* One instant on this thread. */
void session_instant(const char *name, uint8_t flags);

#endif
