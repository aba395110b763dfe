/* SPDX-License-Identifier: Apache-2.0 */
/* Trace handlers (cprof.h): who they are, and what they are told. The built-in one, which writes
 * the JSON, is writer/'s. */
#ifndef PRELOAD_MARKERS_HANDLERS_H
#define PRELOAD_MARKERS_HANDLERS_H

#include <stdbool.h>

#include "preload/settings/settings.h"
#include "writer/writer.h"

struct cprof_trace_handler;

/* Notes the shared objects that CPROF_TRACE_HANDLERS names; they are loaded, by the cprof thread,
 * when there is something to tell. helper: a process below a traced one, which has nothing to tell
 * before its first step. Once, by the waking thread, before the first edge. */
void handlers_start(const struct config *config, bool helper);

/* Instead: loads them at once, a line for each that cannot be loaded or has nothing to open, and
 * asks none of them for its handler. */
void handlers_try(const struct config *config);

/* Tells that a trace is whole. cprof thread. */
void handlers_trace_ready(const struct saved_trace *trace);

/* Adds a handler whose struct and name are copied; false, with a line, when there are too many. Any
 * application thread. */
bool handlers_add(const struct cprof_trace_handler *handler);

/* At exit, when the cprof thread was not done in time: names the handler that holds it up, if one
 * does. */
void handlers_say_stuck(void);

/* In a forked child: there are none. */
void handlers_abandon(void);

#endif
