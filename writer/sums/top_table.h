/* SPDX-License-Identifier: Apache-2.0 */
/* What top.c collects and top_sums.c adds up. cprof thread. */
#ifndef WRITER_SUMS_TOP_TABLE_H
#define WRITER_SUMS_TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/json/json.h"

#define TOP_SEEN 128u /* a power of two */

enum kind_flags {
    KIND_DEVICE = 1u << 0,     /* runs on a device */
    KIND_ANNOTATION = 1u << 1, /* a range of the program's */
    KIND_CALL = 1u << 2,       /* a CUDA call: its kernels are those of the operator around it */
    KIND_STEP = 1u << 3,       /* ProfilerStep#N on the row of steps, all of them one */
    KIND_HIDDEN = 1u << 4,     /* torch leaves it out */
    KIND_ASYNC = 1u << 5,      /* some began and ended apart: not part of the hash */
    KIND_STEP_RANGE = 1u << 6, /* ProfilerStep#N elsewhere, torch.profiler's, all of them one */
    KIND_TRANSFER = 1u << 7,   /* a transfer's range: torch takes it for asynchronous */
};

/* Spans of one name and flags, and their sums. */
struct kind {
    uint64_t hash;
    uint32_t text, text_len; /* its name: place in top.texts */
    uint32_t name;           /* number of the first kind of this name */
    uint32_t flags;          /* enum kind_flags */
    uint64_t count, flops;
    int64_t cpu, self_cpu, device, self_device;             /* ns */
    int64_t memory, self_memory, on_device, self_on_device; /* bytes */
    int64_t first, first_end;                               /* of the span that comes first */
};

struct top_span {
    int64_t start, end;
    uint64_t external; /* id that kernels name */
    uint32_t kind;
    uint32_t serial; /* order in the file */
};

/* Sorted: by start, longest first, in the order of the file. */
struct top_spans {
    struct top_span *at;
    size_t n, room;
};

struct top_memory {
    int64_t at;
    int64_t cpu, device; /* bytes taken or given back; once merged, what came before it */
};

/* What one thread did. Calls come late: they have an array of their own, so that each array grows
 * at its end. */
struct top_row {
    uint64_t key; /* row_key() */
    struct top_spans spans, calls;
    struct top_memory *memory; /* sorted by time */
    size_t n_memory, memory_room;
    bool has_operators; /* not calls only */
    bool steps_only, step_ranges_only;
};

struct top_work {
    uint64_t external; /* 0: free */
    int64_t time;
};

struct top_opened {
    uint64_t row;
    struct top_span span;
    uint64_t flops;
    bool async;
};

struct top {
    bool dead;           /* no table */
    uint64_t used, most; /* bytes */
    uint64_t moved;      /* bytes, to keep arrays sorted */
    uint32_t serial;
    bool has_steps;    /* ProfilerStep#N on the row of steps */
    bool by_call;      /* all device work that names a span names its own correlation */
    uint64_t stepping; /* row_key() of the thread that the steps are of; 0: not known */
    struct buf texts;
    struct kind *kinds;
    size_t n_kinds, kinds_room;
    uint32_t *slots; /* of kinds, + 1; 0: free */
    size_t n_slots;  /* a power of two */
    struct {
        uint32_t name, flags; /* a number (numbered.h), 0: nothing yet */
        uint32_t kind;
    } seen[TOP_SEEN]; /* kinds of names that have a number, by that */
    struct top_row *rows;
    size_t n_rows, rows_room;
    size_t last_row;       /* found last */
    uint32_t *row_slots;   /* of rows by key, + 1; 0: free */
    size_t n_row_slots;    /* a power of two */
    struct top_work *work; /* by external id, open addressing */
    size_t n_work, work_slots;
    struct top_opened *open;
    size_t n_open, open_room;
};

/* apart: calls that nothing is known to have made, and overhead, are nobody's children. */
static inline uint64_t row_key(const struct json_place *at, bool apart)
{
    return (uint64_t)at->pid << 33 | (uint64_t)at->tid << 1 | apart; /* pids have 31 bits at most */
}

/* Frees all that was collected; there will be no table. */
void top_drop(struct top *t);

/* Makes room for one more of `size` bytes. False: the memory is used up (the table is dropped). */
bool top_grow(struct top *t, void **array, size_t *room, size_t n, size_t size);

/* The row of this key, made where there is none; NULL: dropped. Rows may move when one is made. */
struct top_row *top_row_of(struct top *t, uint64_t key);

/* Puts a span in its place. */
void top_insert(struct top *t, struct top_spans *spans, const struct top_span *span);

/* True when a comes before b in a row, whatever their order in the file. */
static inline bool top_before(const struct top_span *a, const struct top_span *b)
{
    return a->start < b->start || (a->start == b->start && a->end > b->end);
}

/* Number of the kind, made where there is none; UINT32_MAX: dropped. */
uint32_t top_kind_of(struct top *t, const char *name, size_t len, uint32_t flags);

/* Time of the work that names the span. */
int64_t top_work_of(const struct top *t, uint64_t external);

/* Adds all rows up into the kinds. False: dropped. */
bool top_add_up(struct top *t);

#endif
