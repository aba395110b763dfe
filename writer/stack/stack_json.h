/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks in traces. A record has the id of its stack (EXTRA_STACK, stack_table.h). Its event gets
 * `sf`, the id of the innermost frame in `stackFrames` (Chrome's trace format). Unless a setting
 * prevents it, args also have the whole stack as `Call stack`, as Kineto writes it: innermost frame
 * first, a semicolon after each. A semicolon inside a frame becomes a colon. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* The nodes of the table that a file names. Zeroed: none. */
struct stacks_used {
    uint64_t *bits;
    uint32_t words; /* of bits */
    size_t bytes;   /* estimate of what stacks_frames() writes */
};

/* Content of `Call stack` in args, in the order of CPROF_STACK_ARGS in config.def. With PYTHON, a
 * thread without Python shows its native frames. */
enum stacks_in_args { STACKS_ALL, STACKS_PYTHON, STACKS_NONE };

/* Call once, before the cprof thread runs; the default is STACKS_ALL. */
void stacks_in_args(enum stacks_in_args what);

/* File names that begin with this folder are shown without it. Copied; at most 64 folders, of which
 * the longest that matches counts. One application thread. */
void stacks_trim(const char *folder, size_t len);

/* Resolves native frames. All calls are made on the cprof thread. */
struct stacks_resolver {
    /* Appends the function name of a return address as plain text; nothing when unknown. */
    void (*name)(uint64_t pc, uint32_t object, struct buf *b);
    /* Finds what was loaded and unloaded. Called before the others are used. */
    void (*look)(void);
    /* Announces that the line of this frame is wanted. */
    void (*want)(uint32_t frame, uint64_t pc, uint32_t object);
    /* Sends the questions and waits for answers: at most 100 ms, and not while a ring fills up.
     * stopping: at most a second in all. */
    void (*ask)(bool stopping);
    /* The next frame whose line has arrived; 0: none. *file is not terminated, and valid until the
     * next ask(). */
    uint32_t (*answer)(const char **file, uint32_t *len, int32_t *line);
};
/* Call once, before the first native frame is recorded. */
void stacks_resolve_with(const struct stacks_resolver *resolver);

/* Resolves new frames, so that events written from now on show their lines. Each pass, once its
 * records are known. stopping: the process ends. cprof thread, as all below. */
void stacks_look(bool stopping);

/* The file names this stack; 0: ignored. */
void stacks_use(struct stacks_used *used, uint32_t stack);

/* Appends `"Call stack": "…"` if there is a stack to show. *first as in json_extras(). */
void stacks_args(struct buf *b, uint32_t stack, bool *first);

/* Ends an event whose args are open: `}, "sf": 7},` when the stack is not 0. */
void stacks_end(struct buf *b, uint32_t stack);

/* Appends the member `"stackFrames": {…},` with the nodes named so far; nothing without any. */
void stacks_frames(struct buf *b, const struct stacks_used *used);

/* The record's stack; 0: none, or unknown. */
uint32_t stacks_of(const struct record *r);

/* Frees the bits. */
void stacks_used_free(struct stacks_used *used);
