/* SPDX-License-Identifier: Apache-2.0 */
/* A trace handler whose calls become messages in a bounded queue, for threads that cprof's own must
 * never wait for: those of the Python module, which hold the GIL. The exports are the module's and
 * no part of cprof.h; a message's layout is in handler_queue.c. */
#ifndef PRELOAD_MARKERS_HANDLER_QUEUE_H
#define PRELOAD_MARKERS_HANDLER_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct cprof_trace_queue;

#define HANDLER_EXPORT __attribute__((visibility("default")))

/* Adds a handler with a queue of so many bytes (64 KiB to 1 GiB). kinds: which messages are wanted,
 * 1 << number of each; nothing is queued of others, but for init, lost and close. NULL, with a
 * line, when that is not possible, and in a forked child. For good: a queue is never freed. Any
 * application thread. */
HANDLER_EXPORT struct cprof_trace_queue *cprof_trace_queue_for(const char *name, size_t bytes,
                                                               unsigned kinds);

/* The same with all kinds: what older modules call. */
HANDLER_EXPORT struct cprof_trace_queue *cprof_trace_queue(const char *name, size_t bytes);

/* Takes whole messages into buf, as many as fit. Waits for the first one at most timeout_ms.
 * Returns their bytes; 0: none came; -1: close was the last one. A message that does not fit at all
 * is left out and counted as lost. One thread at a time. */
HANDLER_EXPORT int64_t cprof_trace_queue_read(struct cprof_trace_queue *queue, void *buf,
                                              size_t size, int timeout_ms);

/* Messages that found no room so far. Any thread. */
HANDLER_EXPORT uint64_t cprof_trace_queue_lost(const struct cprof_trace_queue *queue);

/* Nobody reads any more: what comes is thrown away. Any thread. */
HANDLER_EXPORT void cprof_trace_queue_leave(struct cprof_trace_queue *queue);

/* Ends the recording as the end of the process would, and has everything told. Returns
 * CPROF_DRAIN_DEADLINE_MS; -1 in a forked child and without anything to end. The exiting thread. */
HANDLER_EXPORT int64_t cprof_trace_queue_finish(void);

#endif
