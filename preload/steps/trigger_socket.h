/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of CPROF_TRIGGER=socket: who is listened to, lines in, lines out; the protocol stands
 * in trigger.h. Descriptors are kept where the program does not see them (writer/base/io_thread.h).
 * Where that cannot be had, it may close all it does not know and reuse the numbers, so each is
 * compared with what it was before it is used. cprof thread but where something else is said. */
#ifndef PRELOAD_STEPS_TRIGGER_SOCKET_H
#define PRELOAD_STEPS_TRIGGER_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

/* Takes new clients, their requests, and those whose time is over; listens from the first call on.
 * False, with a line: the address cannot be had. */
bool trigger_socket_poll(void);

/* Whether others than those who are listened to came in the last pass: they fill the places of
 * clients, so the next pass should come soon. */
bool trigger_socket_crowded(void);

/* Tells the clients that wait for it of a trace. */
void trigger_socket_trace(const struct saved_trace *trace);

/* The process ends: tells the clients that wait, and closes. */
void trigger_socket_close(void);

/* Closes what the child was given of it without a word. In the child's atfork handler. */
void trigger_socket_in_child(void);

#endif
