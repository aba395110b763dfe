/* SPDX-License-Identifier: Apache-2.0 */
/* Events to Chrome JSON text: pure functions from plain data to bytes in a struct buf, no I/O, no
 * state. Times are integer nanoseconds and are printed as microseconds with exactly three decimals.
 * Rules: design.md section 6, Kineto's schema. Each event is one line that ends in ",\n" (the
 * trailer closes the array). cprof thread. */
#ifndef WRITER_JSON_JSON_H
#define WRITER_JSON_JSON_H

#include "writer/base/base.h"
#include "writer/record/record.h"

/* Where and when an event stands in the file. */
struct json_place {
    uint32_t pid;
    uint32_t tid;     /* never 0 */
    int64_t start_ns; /* relative to baseTimeNanoseconds, >= 0 */
    int64_t end_ns;   /* >= start_ns */
};

/* Readers count each row of this name as a step, and put the rest behind it into their tables as
 * its number. A range of the program's that has it (torch.profiler's prof.step(), which counts
 * otherwise than we do) is shown under another one. */
#define STEP_NAME       "ProfilerStep#"
#define STEP_RANGE_NAME "torch.profiler step "
#define RANGE_NAME_ROOM 128u /* bytes of such a name; a longer one is cut */

/* The name under which a range of the program's is shown; `room` is where it stands if it is
 * another one. */
struct text json_range_name(struct text name, char room[RANGE_NAME_ROOM]);

/* Appends the event(s) for one record: X for spans, i for instants and memory, one C per series for
 * counters (names and args as Kineto; a counter has one key each, `value` when its only key is
 * empty or the name). All or nothing: when b has no room, b->failed is set and no part of the
 * record is left in it; that holds for every function below too. dtype_names: names by
 * c10::ScalarType, NULL entries allowed; n of them. name: the one under which a span or range is
 * shown. */
void json_record(struct buf *b, const struct record *r, struct text name,
                 const struct json_place *at, const char *const *dtype_names, unsigned n_dtypes);

/* Appends a flow: `s` at `from`, `f` (bp "e") at `to`, both at their start_ns; name and cat are
 * `kind` ("fwdbwd"). */
void json_flow(struct buf *b, const char *kind, uint64_t id, const struct json_place *from,
               const struct json_place *to);

/* Appends an M event (process_name, thread_name, process_labels with text; the two sort_index kinds
 * with number). Nothing for an empty text: Perfetto counts an import error for such a name. */
void json_meta_text(struct buf *b, const char *kind, uint32_t pid, uint32_t tid, const char *key,
                    const char *text, size_t len);
void json_meta_number(struct buf *b, const char *kind, uint32_t pid, uint32_t tid,
                      int64_t sort_index);

/* Appends a span that is not from a ring (ProfilerStep#N, the `PyTorch Profiler (0)` window): args
 * is raw JSON text without braces or "". */
void json_span(struct buf *b, enum category category, const char *name, const struct json_place *at,
               const char *args);

/* What else the room offers. */
#include "writer/json/collective_stats.h"
#include "writer/json/json_args.h"
#include "writer/json/json_gpu.h"
#include "writer/json/json_memory.h"
#include "writer/json/json_scan.h"

#endif
