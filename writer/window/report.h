/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked before the first file and said after the last one. */
#ifndef WRITER_WINDOW_REPORT_H
#define WRITER_WINDOW_REPORT_H

#include <limits.h>
#include <sys/stat.h>

#include "writer/writer.h"

#define REPORT_PATHS 2 /* in the exit line */

/* Traces that are still there. */
struct report_paths {
    uint64_t n;
    char of[REPORT_PATHS][PATH_MAX];
};

/* What the run has left until now. cprof thread; the exiting one once that is done. */
struct report {
    uint64_t traces, events, removed;
    uint64_t lost;              /* what the traces say, and what came too late for one */
    bool lost_more;             /* in steps, or a time, that were not recorded */
    struct report_paths oldest; /* the first */
    struct report_paths newest; /* in order of time */
};

extern struct report report;

/* Notes what the log's thread has lost, which has ended, or is the last one that will be asked for.
 * cprof thread, or the exiting one once that is done. */
void report_thread(struct thread_log *log);

/* A window begins that may be thrown away. cprof thread. */
void report_hold(void);

/* It is thrown away: what threads lost since is not told. cprof thread. */
void report_discard(void);

/* So many were lost, and more that nobody counts. cprof thread. */
void report_lost_more(uint64_t n);

/* A trace is whole. cprof thread. */
void report_trace(const char *path);

/* Writes the one line for the user. The exiting thread, once the cprof thread is done. */
void report_exit(const struct writer_options *options);

/* Whether a file was there before this run began. Where files have times in whole seconds, one of
 * the same second counts as this run's. Any thread. */
bool is_of_earlier_run(const struct stat *st, const struct writer_options *options);

#endif
