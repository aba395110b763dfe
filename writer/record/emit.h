/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a record into a thread's ring, for files of writer/ that make records of their own. The
 * owner of the log. */
#ifndef WRITER_RECORD_EMIT_H
#define WRITER_RECORD_EMIT_H

#include "writer/record/thread_log.h"

/* Room for a record of this name (numbered.h), name and lengths filled in; NULL and counted when
 * there is none. Finish with emit_end(). */
struct record *emit_begin(struct thread_log *log, uint32_t name, uint32_t data_len);

/* Closes the span with this id at `end`, an earlier moment, if it is still open; see
 * spans_take_ended(). */
void span_close_at(struct thread_log *log, uint64_t id, uint64_t end);

/* Ticks at which the end of the log's span with this id came on another thread, which its owner has
 * not heard of yet; 0 = it has not ended. cprof thread. */
uint64_t span_told_end(const struct thread_log *log, uint64_t id);

/* When the operator at `at`, which ended elsewhere at `end`, ends in its thread's row: the thread
 * began the span that is open above it when the call was over. Its own thread; the cprof thread,
 * which checks the span's id afterwards. */
uint64_t span_end_in_row(const struct thread_log *log, uint32_t at, uint64_t end);

/* Hands the filled record over. */
void emit_end(struct thread_log *log);

#endif
