/* SPDX-License-Identifier: Apache-2.0 */
/* Whole traces of this process: their lines in saved_traces.jsonl and CPROF_REPORT, how many stay,
 * and which was last. cprof thread unless noted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/settings.h"
#include "writer/writer.h"

struct saved_file {
    char *path; /* owned; another file may take this name, and is left alone */
    struct file_identity identity;
    uint64_t size;   /* in bytes */
    uint64_t window; /* of the trace (struct saved_trace) */
    bool rest;       /* holds only the last step, which the program's end cut */
};

/* Checks the trace's file. Returns false, owning nothing, if the file is gone, another one has its
 * name (warns once) or memory is short. */
bool saved_look(struct saved_file *file, const struct saved_trace *trace);

/* Appends the trace's line to saved_traces.jsonl in its folder, in one write, so that lines of
 * ranks do not mix. Also to the file of CPROF_REPORT, if it exists. remote: name of the upload, or
 * NULL. Warns once on failure. Takes 250 ms more if the list ends within a line: if no other rank
 * is writing it, a full disk has cut it, and the new line begins with a newline. */
void saved_add_line(const struct saved_trace *trace, const struct saved_file *file,
                    const char *remote, int64_t keep);

/* Adds the file to those that may be removed, and takes it over. Removes the earliest windows'
 * files beyond `keep` (-1: none). A partial last step does not count and stays, unless keep is
 * 0. */
void saved_retain(struct saved_file *file, int64_t keep);

/* At exit (stopping), once, appends to the file of CPROF_REPORT:
 *
 *   {"ended": PID, "unreached": STEPS}
 *
 * with STEPS of steps_unreached(). Returns -1. */
int saved_poll(bool stopping);

/* Whether the file of CPROF_REPORT has all lines so far. cprof thread; the exiting thread after
 * that has ended. */
bool saved_are_reported(void);

/* A trace's name for a line on stderr: without its folder where cprof run names the whole path. */
const char *saved_shown(const char *path);

/* Removes the trace's summary if the trace is gone, for example moved by a command. */
void saved_drop_summary(const char *trace);

/* Remembers the trace if no later window is known. */
void saved_set_last(const struct saved_trace *trace);

/* Copies the path and identity of the latest window's trace. Returns false if there is none. Any
 * thread; takes a lock. */
bool saved_last(char *out, size_t size, struct file_identity *file);
