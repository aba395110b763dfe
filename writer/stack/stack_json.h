/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as traces show them. A record carries the id of its stack (EXTRA_STACK, stack_table.h);
 * its event gets `sf`, the id under which the file's `stackFrames` have the innermost frame
 * (Chrome's trace format), and, unless a setting says otherwise, the whole stack as `Call stack` in
 * its args, as Kineto writes it: innermost frame first, each followed by a semicolon (one inside a
 * frame is a colon there). */
#ifndef WRITER_STACK_STACK_JSON_H
#define WRITER_STACK_STACK_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* Which nodes of the table a file names. Zeroed: none. */
struct stacks_used {
    uint64_t *bits;
    uint32_t words; /* of bits */
    size_t bytes;   /* that stacks_frames() will write, about */
};

/* What of a stack stands in args, in the order of CPROF_STACK_ARGS's values in config.def. Where a
 * thread runs no Python, its native frames stand for PYTHON too. */
enum stacks_in_args { STACKS_ALL, STACKS_PYTHON, STACKS_NONE };

/* Once, before the cprof thread runs; the default is all. */
void stacks_in_args(enum stacks_in_args what);

/* Names of files that begin with this folder are shown without it. Copied; at most 64, the longest
 * that fits is taken. One application thread. */
void stacks_trim(const char *folder, size_t len);

/* Who knows native frames. All is called on the cprof thread. */
struct stacks_resolver {
    /* Appends what the function of a return address is called, plain text; nothing when it is not
     * known. */
    void (*name)(uint64_t pc, uint32_t object, struct buf *b);
    /* Looks what was loaded and unloaded. Before each use of the others. */
    void (*look)(void);
    /* The line of this frame will be asked for. */
    void (*want)(uint32_t frame, uint64_t pc, uint32_t object);
    /* Asks, and waits for answers, at most 100 ms and not while a ring fills up; stopping: at most
     * a second in all. */
    void (*ask)(bool stopping);
    /* The next frame whose line has come; 0: none. *file is not terminated, and good until it asks
     * again. */
    uint32_t (*answer)(const char **file, uint32_t *len, int32_t *line);
};
/* once, before the first native frame is recorded */
void stacks_resolve_with(const struct stacks_resolver *resolver);

/* Finds out about frames that are new, so that what is written from now on shows their lines. Each
 * pass, when it is known which records it will take; stopping: the process ends. cprof thread, as
 * all below. */
void stacks_look(bool stopping);

/* Notes that the file names the stack, unless it is 0. */
void stacks_use(struct stacks_used *used, uint32_t stack);

/* Appends `"Call stack": "…"` if there is a stack to show; *first as in json_extras(). */
void stacks_args(struct buf *b, uint32_t stack, bool *first);

/* Appends what ends an event whose args are open: `}, "sf": 7},` where the stack is not 0. */
void stacks_end(struct buf *b, uint32_t stack);

/* Appends the member `"stackFrames": {…},` with the nodes named so far; nothing when there are
 * none. */
void stacks_frames(struct buf *b, const struct stacks_used *used);

/* The record's stack, 0 = none or no known one. */
uint32_t stacks_of(const struct record *r);

/* Frees it. */
void stacks_used_free(struct stacks_used *used);

#endif
