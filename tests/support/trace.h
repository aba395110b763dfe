/* SPDX-License-Identifier: Apache-2.0 */
/* Reads trace files for tests: checks for strict JSON, counts events, and finds events by text.
 * Relies only on one line per event. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace {
    char *text; /* the whole file, terminated */
    size_t len;
};

/* Reads the file. The test fails unless the file is one JSON value. Free with trace_free(). */
struct trace trace_read(const char *path);

/* The same for a file that is being written: waits up to 10 s until the file is valid. */
struct trace trace_read_open(const char *path);

/* Frees the text. */
void trace_free(struct trace *t);

/* Number of events of phase `ph` whose line contains `part`; NULL counts all events of the
 * phase. */
unsigned trace_count(const struct trace *t, char ph, const char *part);

/* The line of the first such event, terminated; NULL without one. Valid until the next call. */
const char *trace_event(const struct trace *t, char ph, const char *part);

/* The number after the first `"key": ` in the text; -1 without the key. */
double trace_number(const char *text, const char *key);

/* Fails the test unless the file counts this many losses of a cause, and no others. */
void trace_check_lost(const struct trace *t, const char *cause, unsigned n);

/* Number of events of phase `ph` named `name`. */
unsigned trace_named(const struct trace *t, char ph, const char *name);
