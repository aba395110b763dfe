/* SPDX-License-Identifier: Apache-2.0 */
/* Trace handlers (cprof.h): their registry and their calls. The built-in handler, which writes the
 * JSON trace, is in writer/. */
#pragma once

#include <stdbool.h>

#include "preload/settings/settings.h"
#include "writer/writer.h"

struct cprof_trace_handler;

/* Registers the shared objects of CPROF_TRACE_HANDLERS. The cprof thread loads them before the
 * first event. helper: a process below a traced one, which has no events before its first step.
 * Call once, in the waking thread, before the first step edge. */
void handlers_start(const struct config *config, bool helper);

/* Instead of handlers_start(): loads the shared objects at once and logs each that cannot be loaded
 * or lacks cprof_trace_handler_open(), without calling it. */
void handlers_try(const struct config *config);

/* Tells all handlers that a trace is complete. cprof thread. */
void handlers_trace_ready(const struct saved_trace *trace);

/* Adds a handler; copies its struct and name. Returns false, with a line, when there are too many.
 * Any application thread. */
bool handlers_add(const struct cprof_trace_handler *handler);

/* At exit, when the cprof thread did not end in time: logs the handler that it is in, if any. */
void handlers_say_stuck(void);

/* In a forked child: makes the registry empty. */
void handlers_abandon(void);
