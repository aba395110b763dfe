/* SPDX-License-Identifier: Apache-2.0 */
/* One event of a foreign Chrome JSON trace to a line of ours: times moved onto our base, processes,
 * rows and ids moved out of the way of ours and of other files', text made what every reader takes
 * (cupti-perfetto.md A2, A7 to A9). cprof thread. */
#ifndef WRITER_IMPORT_FOREIGN_H
#define WRITER_IMPORT_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

#define FOREIGN_FILES 255u /* most in one trace */
/* a file's processes begin at its number times this; Linux's pids end below 2^22 */
#define FOREIGN_PIDS 10000000u

/* The value that was read last, and the rows that a file has had so far. */
struct foreign;

/* NULL: no memory. */
struct foreign *foreign_new(void);

/* Parses a text, which must be one JSON value and stay while the value is used: until the next
 * call. False: *why (static) and *at, its byte. */
bool foreign_parse(struct foreign *f, const char *text, size_t len, const char **why, uint64_t *at);

/* The event's time in ns of the file's own clock, and where it ends; false: it has none that
 * counts. */
bool foreign_time(const struct foreign *f, int64_t *start_ns, int64_t *end_ns);

/* The value as a whole number (a baseTimeNanoseconds); false: it is none. */
bool foreign_integer(const struct foreign *f, int64_t *value);

/* From now on events are of the trace's `number`th file, 1 to FOREIGN_FILES, and `shift_ns` is
 * added to their times. has_steps: the trace has steps of its own, and spans of the file that are
 * named as such get another name (json_range_name()). */
void foreign_begin(struct foreign *f, unsigned number, int64_t shift_ns, bool has_steps);

/* Appends the event, a line with a comma, as often with one before it that names its row. False,
 * and nothing is appended: it is none that a reader takes (no phase or time, a duration that is
 * missing, a counter without a number ...), lies before the trace's base, or is of one row too
 * many. */
bool foreign_put(struct foreign *f, struct buf *out);

/* Frees it; NULL is allowed. */
void foreign_free(struct foreign *f);

/* Microseconds as text (JSON's number, also with an exponent) to ns, rounded; false: no number, or
 * beyond 64 bits. */
bool foreign_us(const char *text, size_t len, int64_t *ns);

#endif
