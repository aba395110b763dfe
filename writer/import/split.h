/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts the text of a Chrome JSON file into its events, whatever the file's size: only where values
 * begin and end is known here, foreign.h reads what stands in them. Both forms,
 * `{"traceEvents": [...], ...}` and `[...]`; the second need not end (Chrome's own rule: what a
 * crash leaves). No input but what it is given; any thread. */
#ifndef WRITER_IMPORT_SPLIT_H
#define WRITER_IMPORT_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

#define SPLIT_VALUE_MOST      (1u << 20) /* bytes of an event; longer ones are stepped over */
#define SPLIT_CONTAINERS_MOST 4096u      /* arrays and objects in one */
#define SPLIT_VALUES_MOST     65536u     /* values in one: json_tree.h has 56 bytes for each */
#define SPLIT_TEXT_MOST       (UINT64_C(16) << 30) /* bytes of a file, and of its text */
#define SPLIT_TOO_LONG        "it has more than 16 GiB"
#define SPLIT_DEPTH           64u /* arrays and objects inside each other */

enum split_got {
    SPLIT_MORE,   /* all bytes are taken */
    SPLIT_EVENT,  /* `value` is an event */
    SPLIT_MEMBER, /* `value` is that of the top level's key `key` */
    SPLIT_LONG_EVENT,
    SPLIT_LONG_MEMBER, /* the same, too long; value is empty */
    SPLIT_FAULT,       /* `fault` says what is wrong, fault_at where */
};

struct split {
    int state;         /* enum in split.c; 0 at the beginning */
    bool array;        /* the form without an object around it */
    bool events;       /* the events have been met */
    uint64_t at;       /* bytes taken */
    struct buf value;  /* as in the file */
    uint64_t value_at; /* where it begins */
    char key[64];      /* terminated; what is longer is cut */
    const char *fault; /* static */
    uint64_t fault_at; /* byte of the text, from 0 */
    /* inside a value */
    bool is_event, is_long, in_string, escaped;
    unsigned depth, containers, values, key_len;
};

/* Takes bytes from *at up to the end of the next value; *at is where to go on. `value` lasts until
 * the next call. */
enum split_got split_next(struct split *s, const char **at, const char *end);

/* The text has ended. False: too early, see `fault`; *cut tells whether an event was, which is
 * allowed in an array. */
bool split_end(struct split *s, bool *cut);

/* Forgets everything, keeps the memory. */
void split_reset(struct split *s);

/* Frees what it holds. */
void split_free(struct split *s);

#endif
