/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the text of a Chrome JSON file of any size into its events. It only finds where values
 * begin and end; foreign.h reads them. Takes `{"traceEvents": [...], ...}` and `[...]`. The latter
 * may lack its end, as Chrome allows after a crash. No I/O; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

#define SPLIT_VALUE_MOST      (1u << 20) /* bytes of an event; longer ones are skipped */
#define SPLIT_CONTAINERS_MOST 4096u      /* arrays and objects per event */
#define SPLIT_VALUES_MOST     65536u     /* values per event: 56 bytes each in json_tree.h */
#define SPLIT_TEXT_MOST       (UINT64_C(16) << 30) /* bytes of a file, and of its unpacked text */
#define SPLIT_TOO_LONG        "it has more than 16 GiB"
#define SPLIT_DEPTH           64u /* most nested arrays and objects */

enum split_got {
    SPLIT_MORE,   /* all bytes are consumed */
    SPLIT_EVENT,  /* `value` is an event */
    SPLIT_MEMBER, /* `value` belongs to the top-level key `key` */
    SPLIT_LONG_EVENT,
    SPLIT_LONG_MEMBER, /* the same for long values; value is empty */
    SPLIT_FAULT,       /* `fault` tells what is wrong, fault_at where */
};

struct split {
    int state;         /* enum in split.c; 0 at the start */
    bool array;        /* a trace without an object around its events */
    bool events;       /* the events were found */
    uint64_t at;       /* bytes consumed */
    struct buf value;  /* as in the file */
    uint64_t value_at; /* where it begins */
    char key[64];      /* terminated; longer keys are cut */
    const char *fault; /* static */
    uint64_t fault_at; /* byte of the text, from 0 */
    /* state inside a value */
    bool is_event, is_long, in_string, escaped;
    unsigned depth, containers, values, key_len;
};

/* Consumes bytes from *at up to the end of the next value and advances *at. `value` is valid until
 * the next call. */
enum split_got split_next(struct split *s, const char **at, const char *end);

/* The text has ended. False: too early, see `fault`. *cut: an event was cut, which is allowed in an
 * array. */
bool split_end(struct split *s, bool *cut);

/* Resets the state, keeps the memory. */
void split_reset(struct split *s);

/* Frees the memory. */
void split_free(struct split *s);
