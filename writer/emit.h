/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a record into a thread's ring, for files of writer/ that make records of their own. The owner of the log. */
#ifndef WRITER_EMIT_H
#define WRITER_EMIT_H

#include "writer/thread_log.h"

/* Room for a record of this name (numbered.h), name and lengths filled in; NULL and counted when there is none. Finish with emit_end(). */
struct record *emit_begin(struct thread_log *log, uint32_t name, uint32_t data_len);

/* Closes the span with this key at `end`, an earlier moment, when it began before that. It becomes asynchronous; what is open inside goes on. */
void span_close_at(struct thread_log *log, const void *key, uint64_t end);

/* Hands the filled record over. */
void emit_end(struct thread_log *log);

#endif
