/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a trace once it is whole: its line in saved_traces.jsonl, the upload, the user's
 * command, and which traces stay. One thing at a time, in the order of the traces; uploads and
 * commands are programs of their own (spawn.h) that the cprof thread looks at between its passes.
 *
 *   upload     CPROF_REMOTE_URL: up to UPLOAD_TRIES tries. One that fails leaves the file where it
 *              is, whatever CPROF_NUM_TRACES_TO_KEEP says.
 *   command    CPROF_ON_TRACE_READY: words, with '...', "..." and \ as in a shell; the trace's path
 *              is appended. "sh:TEXT" gives TEXT to /bin/sh -c, with the path as $1. Both find
 *              CPROF_TRACE_PATH, CPROF_TRACE_RANK, CPROF_TRACE_FIRST_STEP, CPROF_TRACE_LAST_STEP in
 *              their environment.
 *   retention  when both are over
 */
#ifndef PRELOAD_DELIVERY_POST_SAVE_H
#define PRELOAD_DELIVERY_POST_SAVE_H

#include <stdbool.h>
#include <stddef.h>

#include "preload/core/core.h"
#include "preload/settings/settings.h"
#include "writer/writer.h"

/* Reads the settings, looks for the programs; a line for each thing that cannot work. Once, at
 * wake-up, on the waking thread. */
void post_save_start(const struct config *config);

/* Copies the environment again at the first recorded step: programs set credentials themselves.
 * Column of parts.def. */
void post_save_edge_before(const struct edge_change *change);

/* A trace is whole. cprof thread. */
void post_save_trace(const struct saved_trace *trace);

/* Looks after the program that runs and starts the next; see writer_options.each_pass. cprof
 * thread. */
int post_save_poll(bool stopping);

/* Splits a command into words in place of `text`; NULL behind the last. False: a quote is not
 * closed, or there are more than `most` - 1 words, or none. Pure. */
bool post_save_split(char *text, const char **words, size_t most);

#endif
