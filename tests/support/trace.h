/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file as tests look at it: checked to be strict JSON, its events counted and picked by
 * text. The writer puts each event on a line of its own, which is all that this relies on. */
#ifndef TESTS_SUPPORT_TRACE_H
#define TESTS_SUPPORT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace {
    char *text; /* the whole file, terminated */
    size_t len;
};

/* Reads the file; the test fails unless it is one JSON value and nothing else. Free with
 * trace_free(). */
struct trace trace_read(const char *path);

/* The same of a file that is being written: waits until it is whole, ten seconds at most. */
struct trace trace_read_open(const char *path);

/* Frees the text. */
void trace_free(struct trace *t);

/* Events of phase `ph` whose line holds `part`; NULL counts all of the phase. */
unsigned trace_count(const struct trace *t, char ph, const char *part);

/* The line of the first such event, terminated, until the next call; NULL: there is none. */
const char *trace_event(const struct trace *t, char ph, const char *part);

/* The number that follows `"key": ` first in a text; -1 when it is not there. */
double trace_number(const char *text, const char *key);

/* Fails the test unless the file counts this many losses of a cause, and no others. */
void trace_check_lost(const struct trace *t, const char *cause, unsigned n);

/* Events of phase `ph` named `name`. */
unsigned trace_named(const struct trace *t, char ph, const char *name);

#endif
