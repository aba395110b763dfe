/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a complete trace: its line in saved_traces.jsonl, the upload, the user's command,
 * and the deletion of old traces. One trace after the other. Uploads and commands are separate
 * programs (spawn.h), which the cprof thread checks between its passes.
 *
 *   upload     CPROF_REMOTE_URL, with up to UPLOAD_TRIES tries: the trace, then its summary. After
 *              a failure the files stay, whatever CPROF_NUM_TRACES_TO_KEEP says.
 *   command    CPROF_ON_TRACE_READY: words with '...', "..." and \ as in a shell, then the trace's
 *              path. "sh:TEXT" runs TEXT by /bin/sh -c, with the path as $1. Both have
 *              CPROF_TRACE_PATH, CPROF_TRACE_RANK, CPROF_TRACE_FIRST_STEP and
 *              CPROF_TRACE_LAST_STEP in their environment.
 *   deletion   after both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "preload/core/core.h"
#include "preload/settings/settings.h"
#include "writer/writer.h"

/* Reads the settings and finds the programs; warns about each thing that cannot work. Once, on the
 * waking thread. */
void post_save_start(const struct config *config);

/* Copies the environment again at the first recorded step, because programs set credentials
 * themselves. Column of parts.def. */
void post_save_edge_before(const struct edge_change *change);

/* Handles a complete trace. cprof thread. */
void post_save_trace(const struct saved_trace *trace);

/* Checks the running program and starts the next; see writer_options.each_pass. cprof thread. */
int post_save_poll(bool stopping);

/* Splits a command into words inside `text`, with NULL after the last. Returns false if a quote is
 * not closed, there is no word, or there are more than `most` - 1. Pure. */
bool post_save_split(char *text, const char **words, size_t most);
