/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a trace (`cprof top`), added up while the trace is written, so that the answer is
 * there with the file: a row for each name with its calls, its time with and without its children,
 * kernels, memory and FLOPs. Equal, to the nanosecond, to what
 * scripts/python/cprof/tool/averages.py finds in the file itself; where that cannot be promised
 * (rows of other tools, keys of the program's that mean something to readers, more spans than the
 * memory given takes) there is no table, and the command reads the trace. Spans are kept until the
 * window's end, 32 bytes each: their nesting is known only then, because CUPTI tells of calls late.
 * Times are nanoseconds of the file. cprof thread. */
#ifndef WRITER_SUMS_TOP_H
#define WRITER_SUMS_TOP_H

#include "writer/base/base.h"
#include "writer/record/record.h"
#include "writer/json/json.h"

struct top;

/* Empty; takes at most so many bytes of memory. NULL: no memory, or most is 0. */
struct top *top_make(uint64_t most);

/* NULL is allowed, here and below. */
void top_free(struct top *t);

/* Memory that it takes. */
uint64_t top_bytes(const struct top *t);

/* A record as it is given to json_record(). */
void top_record(struct top *t, const struct record *r, const struct json_place *at);

/* A span that is open now: it counts when the window ends like this. top_forget_open(): what was
 * open is looked at anew. */
void top_open(struct top *t, const struct record *r, const struct json_place *at);
void top_forget_open(struct top *t);

/* A step, on the row of the steps. thread: the one that it is of, in the same process; 0: not
 * known. The first known one is that of all: what it does are the steps' children. */
void top_step(struct top *t, const char *name, const struct json_place *at, uint32_t thread);

/* What CUPTI tells, as it is given to json_gpu_call(), _work() and _overhead(). external: the span
 * that made the call, 0 = none. */
void top_gpu(struct top *t, const struct gpu_record *r, const struct json_place *at,
             uint64_t external);

/* A range's copy on a device. */
void top_annotation(struct top *t, const char *name, size_t len, const struct json_place *at);

/* Adds up what there is, once, and appends the rows as text. False: there is no table. */
bool top_finish(struct top *t, struct buf *out);

/* Puts the finished table beside the finished trace, as PATH.top. memory: tensor memory was
 * recorded. flops: as flop_stats_account() puts them, or empty. Says nothing when it cannot: the
 * trace has it all. cprof thread. */
void top_save(struct top *t, const char *trace_path, bool memory, const struct buf *flops);

#endif
