/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces that this process has saved: the line of each in saved_traces.jsonl and in
 * CPROF_REPORT, how many stay, and which was the last. cprof thread but where something else is
 * said.
 */
#ifndef PRELOAD_DELIVERY_SAVED_H
#define PRELOAD_DELIVERY_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/settings.h"
#include "writer/writer.h"

struct saved_file {
    char *path; /* owned; another file may have it meanwhile, and is left alone */
    struct file_identity identity;
    uint64_t size;   /* bytes */
    uint64_t window; /* of the trace (struct saved_trace) */
    bool rest;       /* of the last step, which the end of the program cut: no whole one is in it */
};

/* Looks at the trace's file. False, and nothing is owned: it is gone, another file has its name
 * (one line says so, once), or no memory. */
bool saved_look(struct saved_file *file, const struct saved_trace *trace);

/* Adds the trace's line to saved_traces.jsonl in its folder, with one write behind the end, so that
 * ranks do not mix theirs. remote: the name it is uploaded as, or NULL. One line on stderr, once,
 * when that fails. Takes 250 ms more where the list ends within a line: either another rank is
 * writing it, or it was cut by a full disk and the new line begins with a line's end. The file that
 * CPROF_REPORT names, if it is there, gets the same line. */
void saved_add_line(const struct saved_trace *trace, const struct saved_file *file,
                    const char *remote, int64_t keep);

/* The file is one of those that may go: removes that of the earliest window while there are more
 * than `keep` (-1: never). A rest takes no other trace's place: it stays, unless none is to. Takes
 * it over. */
void saved_retain(struct saved_file *file, int64_t keep);

/* At the end (stopping), once, adds to the file that CPROF_REPORT names:
 *
 *   {"ended": PID, "unreached": STEPS}
 *
 * unreached: as steps_unreached() says. Returns -1. */
int saved_poll(bool stopping);

/* Whether the file that CPROF_REPORT names took all lines until now. The exiting thread, when the
 * cprof thread is done. */
bool saved_are_reported(void);

/* Removes the trace's table, TRACE.top, when the trace is not there any more: a command has moved
 * it. cprof thread. */
void saved_drop_table(const char *trace);

/* Remembers it, if it is of the latest window so far. */
void saved_set_last(const struct saved_trace *trace);

/* The path of the whole trace of the latest window into out, and what file it is; false: there is
 * none yet. Any thread; takes a lock. */
bool saved_last(char *out, size_t size, struct file_identity *file);

#endif
