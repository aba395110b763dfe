/* SPDX-License-Identifier: Apache-2.0 */
/* Converts an event of a foreign Chrome JSON trace to an event of ours. Times are moved to our
 * base; processes, rows and ids are moved apart from ours and from those of other files; text
 * becomes readable for every reader (cupti-perfetto.md A2, A7 to A9). cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

#define FOREIGN_FILES 255u /* most files in one trace */
/* a file's pids begin at its number times this; Linux's pids are below 2^22 */
#define FOREIGN_PIDS 10000000u

/* The last value read, and the rows of the file so far. */
struct foreign;

/* NULL: no memory. */
struct foreign *foreign_new(void);

/* Parses a text, which must be one JSON value. The text must stay valid until the next call. False:
 * *why (static) and *at, its byte. */
bool foreign_parse(struct foreign *f, const char *text, size_t len, const char **why, uint64_t *at);

/* The event's start and end in ns of the file's own clock. False: it has no usable time. */
bool foreign_time(const struct foreign *f, int64_t *start_ns, int64_t *end_ns);

/* The value as an integer (baseTimeNanoseconds). False: it is not one. */
bool foreign_integer(const struct foreign *f, int64_t *value);

/* Begins a file, the trace's `number`th, 1 to FOREIGN_FILES; `shift_ns` is added to its times.
 * has_steps: the trace has steps of its own, so step ranges of the file are renamed
 * (json_range_name()). */
void foreign_begin(struct foreign *f, unsigned number, int64_t shift_ns, bool has_steps);

/* Appends the event, a line with a comma, preceded by an event that names its row if new. False,
 * and nothing is appended: it is before the trace's base, there are too many rows, or no reader
 * takes it. That is an event without phase or time, a span without duration, or a counter without
 * a number. */
bool foreign_put(struct foreign *f, struct buf *out);

/* NULL is allowed. */
void foreign_free(struct foreign *f);

/* Converts microseconds in text (a JSON number, also with exponent) to ns, rounded. False: no
 * number, or beyond 64 bits. */
bool foreign_us(const char *text, size_t len, int64_t *ns);
