/* SPDX-License-Identifier: Apache-2.0 */
/* A trace handler that puts its calls into a bounded queue. It serves threads that the cprof thread
 * must never wait for: the Python module's, which hold the GIL. These exports are for the module
 * and not part of cprof.h. handler_queue.c has the layout of messages. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cprof_trace_queue;

#define HANDLER_EXPORT __attribute__((visibility("default")))

/* Adds a handler with a queue of `bytes` (64 KiB to 1 GiB). kinds: wanted messages, 1 << number
 * each; init, lost and close always come. Returns NULL in a forked child and, with a line, on
 * failure. A queue is never freed. Any application thread. */
HANDLER_EXPORT struct cprof_trace_queue *cprof_trace_queue_for(const char *name, size_t bytes,
                                                               unsigned kinds);

/* Copies as many whole messages into buf as fit. Waits at most timeout_ms for the first. Returns
 * their bytes; 0: no message; -1: close was read. A message larger than buf is dropped and counted
 * as lost. One thread at a time. */
HANDLER_EXPORT int64_t cprof_trace_queue_read(struct cprof_trace_queue *queue, void *buf,
                                              size_t size, int timeout_ms);

/* Messages lost so far. Any thread. */
HANDLER_EXPORT uint64_t cprof_trace_queue_lost(const struct cprof_trace_queue *queue);

/* Discards all further messages, because nothing reads the queue any more. Any thread. */
HANDLER_EXPORT void cprof_trace_queue_leave(struct cprof_trace_queue *queue);

/* Ends the recording as at process exit; handlers get their last calls. Returns
 * CPROF_DRAIN_DEADLINE_MS; -1 in a forked child, or if nothing was started. Exiting thread. */
HANDLER_EXPORT int64_t cprof_trace_queue_finish(void);
