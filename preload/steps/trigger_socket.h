/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of CPROF_TRIGGER=socket; trigger.h describes the protocol. Descriptors live outside
 * the program's table (writer/base/io_thread.h). Where that is impossible, the program may close
 * them and reuse the numbers, so each use checks the inode first. cprof thread unless noted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

/* Serves one pass: accepts clients, reads requests, disconnects late ones. The first call listens.
 * Returns false, with a message, when it cannot. */
bool trigger_socket_poll(void);

/* True when strangers connected in the last pass. They fill the queue, so the next pass should come
 * soon. */
bool trigger_socket_crowded(void);

/* Tells clients that wait for this trace. */
void trigger_socket_trace(const struct saved_trace *trace);

/* Tells waiting clients that the process ends, and closes. */
void trigger_socket_close(void);

/* Closes the child's copies of the descriptors. In the child's atfork handler. */
void trigger_socket_in_child(void);
