/* SPDX-License-Identifier: Apache-2.0 */
/* Events as Chrome JSON text: pure functions from plain data to bytes in a struct buf, no I/O, no
 * state. Times are integer nanoseconds, printed as microseconds with three decimals. The keys
 * are those of Kineto. An event is a line that ends in ",\n"; the trailer closes
 * the array. cprof thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/record/record.h"

/* Place and time of an event in the file. */
struct json_place {
    uint32_t pid;
    uint32_t tid;     /* never 0 */
    int64_t start_ns; /* relative to baseTimeNanoseconds, >= 0 */
    int64_t end_ns;   /* >= start_ns */
};

/* Readers count each row with this name as a step and show the rest of the name as its number. A
 * range of the program with this name is shown as STEP_RANGE_NAME: torch.profiler's prof.step()
 * counts otherwise than cprof. */
#define STEP_NAME       "ProfilerStep#"
#define STEP_RANGE_NAME "torch.profiler step "
#define RANGE_NAME_ROOM 128u /* bytes of such a name; longer ones are cut */

/* The name under which a range of the program is shown, in `room` if it differs. */
struct text json_range_name(struct text name, char room[RANGE_NAME_ROOM]);

/* Appends the events of a record: X for spans, i for instants and memory, one C per series for
 * counters. Names and args are Kineto's. A counter's key is `value` when its only key is empty or
 * the name. All or nothing, as every function below: without room, b->failed is set and nothing of
 * the record stays. dtype_names: n_dtypes names by c10::ScalarType, NULL entries allowed. name: as
 * shown. */
void json_record(struct buf *b, const struct record *r, struct text name,
                 const struct json_place *at, const char *const *dtype_names, unsigned n_dtypes);

/* Appends a flow: `s` at `from`, `f` (bp "e") at `to`, each at its start_ns. Name and cat are
 * `kind` ("fwdbwd"). */
void json_flow(struct buf *b, const char *kind, uint64_t id, const struct json_place *from,
               const struct json_place *to);

/* Appends an M event: process_name, thread_name and process_labels with text, the two sort_index
 * kinds with a number. Nothing for an empty text, which Perfetto counts as an import error. */
void json_meta_text(struct buf *b, const char *kind, uint32_t pid, uint32_t tid, const char *key,
                    const char *text, size_t len);
void json_meta_number(struct buf *b, const char *kind, uint32_t pid, uint32_t tid,
                      int64_t sort_index);

/* Appends a span that no ring had (ProfilerStep#N, `PyTorch Profiler (0)`). args: raw JSON text
 * without braces, or "". */
void json_span(struct buf *b, enum category category, const char *name, const struct json_place *at,
               const char *args);

/* The other headers of the room. */
#include "writer/json/collective_stats.h"
#include "writer/json/json_args.h"
#include "writer/json/json_gpu.h"
#include "writer/json/json_memory.h"
#include "writer/json/json_scan.h"
#include "writer/json/json_state.h"
