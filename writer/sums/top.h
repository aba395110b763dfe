/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `cprof top` in a window's summary, computed while the trace is written: a row per
 * name with calls, time with and without children, kernels, memory and FLOPs. It equals, to the
 * nanosecond, what scripts/python/cprof/tool/averages.py computes from the trace. Where that
 * cannot be guaranteed there is no table, and the command reads the trace. This is so with rows
 * of other tools, args of the program that have a meaning to readers, or more spans than the
 * memory takes.
 *
 * Spans are kept until the window's end, 32 bytes each, because CUPTI reports calls late and
 * nesting is known only then. Times are nanoseconds of the file. cprof thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/record/record.h"
#include "writer/json/json.h"

struct top;

/* Makes an empty table that takes at most `most` bytes of memory. NULL: no memory, or most is 0. */
struct top *top_make(uint64_t most);

/* Frees the table. t may be NULL, here and below. */
void top_free(struct top *t);

/* True for torch's range around a transfer ("gloo:all_reduce"), which c10d may end on another
 * thread. */
bool is_transfer_range(const char *name, size_t len);

/* Bytes of memory in use. */
uint64_t top_bytes(const struct top *t);

/* Takes a record, as given to json_record(). */
void top_record(struct top *t, const struct record *r, const struct json_place *at);

/* Takes a span that is open now. It counts if it is still open when the window ends.
 * top_forget_open() drops these spans, before the open spans are read again. */
void top_open(struct top *t, const struct record *r, const struct json_place *at);
void top_forget_open(struct top *t);

/* Takes a step of the row of steps. thread: tid that marked it, 0: unknown. The first known thread
 * counts for all steps: its spans are their children. */
void top_step(struct top *t, const char *name, const struct json_place *at, uint32_t thread);

/* Takes a record of CUPTI, as given to json_gpu_call(), _work() or _overhead(). external: span that
 * made the call; 0: none. */
void top_gpu(struct top *t, const struct gpu_record *r, const struct json_place *at,
             uint64_t external);

/* Takes a range's copy on a device. */
void top_annotation(struct top *t, const char *name, size_t len, const struct json_place *at);

/* Computes the table, once. False: no table. */
bool top_finish(struct top *t);

#define TOP_REST "(other names)" /* as in summary_file.py */

/* The rows of a table, and how many of them were written. */
struct top_rows {
    size_t all, shown;
};

/* Appends the rows of the finished table as text: of those that take more than `most` bytes, the
 * ones with most time of their own, on devices and then on the CPU, and the sums of the others,
 * named TOP_REST. */
struct top_rows top_put(const struct top *t, size_t most, struct buf *out);
