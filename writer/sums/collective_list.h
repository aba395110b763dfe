/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of a window, for its summary: when each began and ended, and what the ranks'
 * events of one collective have in common. Of NCCL they are kernels, of gloo ranges, of MPI calls,
 * as in scripts/python/cprof/tool/collectives.py. Times are nanoseconds of the file. cprof
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

/* What lasts as long as the communication; the first kind that a window has counts. */
enum collective_kind {
    COLLECTIVE_NCCL, /* kernels */
    COLLECTIVE_RANGE,
    COLLECTIVE_MPI,
    COLLECTIVE_KINDS,
    COLLECTIVE_NONE = COLLECTIVE_KINDS
};

struct collective_seen {
    int64_t start, end;
    int64_t bytes, number; /* of the larger side; in its communicator; -1: unknown */
    uint32_t key;          /* index in the list's keys */
};

struct collective_column {
    struct collective_seen *at;
    size_t n, room;
};

/* Zeros: empty. */
struct collective_list {
    struct collective_column of[COLLECTIVE_KINDS];
    struct collective_column open[COLLECTIVE_KINDS]; /* of spans that are open now */
    struct buf keys;                                 /* JSON texts, each with its NUL */
    uint32_t n_keys;
    uint64_t used, most; /* bytes of memory; most: set by the owner */
    bool failed;         /* more than the memory takes: the list is not whole */
};

/* The kind of an event with this name. */
enum collective_kind collective_kind_of(const char *name, size_t len, bool on_device);

/* Takes an event. args: DATA_ARGS of n bytes; n may be 0. open: it may still end; see
 * collective_list_forget_open(). */
void collective_list_add(struct collective_list *l, enum collective_kind kind, struct text name,
                         int64_t start, int64_t end, const uint8_t *args, size_t n, bool open);

/* Drops the open ones, before they are read again. */
void collective_list_forget_open(struct collective_list *l);

/* Ends the collecting: the open ones count, and the first kind that there is stays. Sets l->failed
 * for a list that is not whole or has too many keys. */
void collective_list_finish(struct collective_list *l);

/* True if single collectives fit into the summary. After collective_list_finish(), as below. */
bool collective_list_fits(const struct collective_list *l);

/* Bytes that count against the summary's limit, with the sums of n_rows steps. */
size_t collective_list_bytes(const struct collective_list *l, size_t n_rows);

/* Steps of a window that share a row. Rows ascend and do not overlap. */
struct summary_step {
    int64_t start, end;
    int64_t number; /* of the first one; -1: the window has no steps */
    uint32_t count;
};

/* Appends the list as one JSON object: columns, or, where these do not fit, sums by step and key.
 * Appends `null` for a list that failed, and for sums without steps. */
void collective_list_put(const struct collective_list *l, const struct summary_step *steps,
                         size_t n_steps, struct buf *out);

/* Frees the memory. */
void collective_list_free(struct collective_list *l);
