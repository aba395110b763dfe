/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a window, a small file beside its trace: the parts of each step, the collectives,
 * and the table of `cprof top`. Many ranks are compared by their summaries, without their traces.
 * It equals what `cprof summarize` computes from the trace. What cannot be guaranteed is null in
 * it, and the command reads the trace. Times are nanoseconds of the file. cprof thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/record/record.h"
#include "writer/json/json.h"

struct summary;

/* The parts of a step (step_parts.h). */
enum step_part {
#define PART(id, name) PART_##id,
#include "writer/sums/step_parts.def"
#undef PART
    STEP_PARTS
};

/* What a device's steps consist of. */
struct step_shares {
    uint32_t device;          /* ordinal; GPU_NONE: the CPU */
    double share[STEP_PARTS]; /* 0 to 1; together 1 */
};

/* Makes an empty summary that takes at most `most` bytes of memory. NULL: no memory, or most is
 * 0. */
struct summary *summary_make(uint64_t most);

/* Frees the summary. s may be NULL, here and below. */
void summary_free(struct summary *s);

/* Bytes of memory in use. */
uint64_t summary_bytes(const struct summary *s);

/* Takes a record, as given to json_record(). */
void summary_record(struct summary *s, const struct record *r, const struct json_place *at);

/* Takes a span that is open now. It counts if it is still open when the window ends.
 * summary_forget_open() drops these spans, before the open spans are read again. */
void summary_open(struct summary *s, const struct record *r, const struct json_place *at);
void summary_forget_open(struct summary *s);

/* Takes a step. thread: as for top_step(). */
void summary_step(struct summary *s, int64_t number, const char *name, const struct json_place *at,
                  uint32_t thread);

/* Takes a record of CUPTI, as given to json_gpu_call(), _work() or _overhead(). external: span that
 * made the call; 0: none. transfer: of a communication library's kernel; NULL: none. */
void summary_gpu(struct summary *s, const struct gpu_record *r, const struct json_place *at,
                 uint64_t external, const struct transfer *transfer);

/* Takes a range's copy on a device. */
void summary_annotation(struct summary *s, const char *name, size_t len,
                        const struct json_place *at);

/* The shares of the parts in the steps of each device, after summary_save(). The first of several
 * steps does not count. Returns their number: at most `most`, 0 where the parts are unknown. */
unsigned summary_shares(const struct summary *s, struct step_shares *out, unsigned most);

/* Writes the summary as PATH.summary beside the finished trace, at most 200 KB. about: pairs
 * `"key": value, ` of its first line. Returns the file; inode 0: none. Silent on errors, because
 * the trace has all of it. */
struct file_identity summary_save(struct summary *s, const char *trace_path,
                                  const struct buf *about);
