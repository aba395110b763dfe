/* SPDX-License-Identifier: Apache-2.0 */
/* The counts of the run, and the exit line. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "writer/writer.h"

#define REPORT_PATHS 2 /* named in the exit line */

/* Traces that were not removed. */
struct report_paths {
    uint64_t n;
    char of[REPORT_PATHS][PATH_MAX];
};

/* Totals of the run. cprof thread; the exiting thread once the cprof thread is done. */
struct report {
    uint64_t traces, events, removed;
    uint64_t lost;              /* as the traces state, and records too late for one */
    bool lost_more;             /* some steps or times were not recorded: `lost` is a lower bound */
    struct report_paths oldest; /* the first traces */
    struct report_paths newest; /* the last traces, in order of time */
};

extern struct report report;

/* Notes the losses of the log's thread for the exit line: when it ends, or at exit. cprof thread;
 * the exiting thread once the cprof thread is done. */
void report_thread(struct thread_log *log);

/* A window begins that may be discarded: remembers the losses so far. cprof thread. */
void report_hold(void);

/* That window is discarded: its losses are not reported. cprof thread. */
void report_discard(void);

/* Adds n losses and marks the total as a lower bound. cprof thread. */
void report_lost_more(uint64_t n);

/* Counts a finished trace. cprof thread. */
void report_trace(const char *path);

/* Writes the exit line. The exiting thread, once the cprof thread is done. */
void report_exit(const struct writer_options *options);

/* True when the file is older than this run. Where the file system keeps whole seconds, a file of
 * the run's first second counts as this run's. Any thread. */
bool is_of_earlier_run(const struct stat *st, const struct writer_options *options);
