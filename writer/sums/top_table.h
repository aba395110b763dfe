/* SPDX-License-Identifier: Apache-2.0 */
/* The data that top.c collects and top_sums.c sums up. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"
#include "writer/json/json.h"
#include "writer/sums/module_sums.h"

#define TOP_SEEN 128u /* a power of two */

enum kind_flags {
    KIND_DEVICE = 1u << 0,     /* runs on a device */
    KIND_ANNOTATION = 1u << 1, /* a range of the program */
    KIND_CALL = 1u << 2,       /* a CUDA call: its kernels count for the operator around it */
    KIND_STEP = 1u << 3,       /* ProfilerStep#N of the steps' row; one kind for all */
    KIND_HIDDEN = 1u << 4,     /* torch.profiler does not show it */
    KIND_ASYNC = 1u << 5,      /* some spans are asynchronous; not part of the hash */
    KIND_STEP_RANGE = 1u << 6, /* torch.profiler's own ProfilerStep#N; one kind for all */
    KIND_TRANSFER = 1u << 7,   /* range of a transfer: torch takes it for asynchronous */
};

/* Spans with one name and flags, and their sums. */
struct kind {
    uint64_t hash;
    uint32_t text, text_len; /* the name, as offset in top.texts */
    uint32_t name;           /* index of the first kind with this name */
    uint32_t flags;          /* enum kind_flags */
    uint64_t count, flops;
    int64_t cpu, self_cpu, device, self_device;             /* ns */
    int64_t memory, self_memory, on_device, self_on_device; /* bytes */
    int64_t first, first_end;                               /* of the earliest span */
};

struct top_span {
    int64_t start, end;
    uint64_t external; /* span id, as kernels name it */
    uint16_t kind;
    uint16_t module; /* number in top.modules; 0: none */
    uint32_t serial; /* order in the file */
};

/* Sorted by start, longest first, then in file order. */
struct top_spans {
    struct top_span *at;
    size_t n, room;
};

struct top_memory {
    int64_t at;
    int64_t cpu, device; /* bytes allocated or freed; after the merge, the sum before it */
};

/* The events of one thread. Calls come late and have an array of their own, so that both arrays
 * grow at the end. */
struct top_row {
    uint64_t key; /* row_key() */
    struct top_spans spans, calls;
    struct top_memory *memory; /* sorted by time */
    size_t n_memory, memory_room;
    bool has_operators; /* not only calls */
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
    bool dead;           /* no table any more */
    uint64_t used, most; /* bytes of memory */
    uint64_t moved;      /* bytes moved to keep arrays sorted */
    uint32_t serial;
    bool has_steps;    /* cprof wrote steps */
    bool by_call;      /* all device work names its own correlation id as external id */
    uint64_t stepping; /* row_key() of the thread of the steps; 0: unknown */
    struct buf texts;
    struct kind *kinds;
    size_t n_kinds, kinds_room;
    uint32_t *slots; /* index + 1 of a kind; 0: free */
    size_t n_slots;  /* a power of two */
    struct {
        uint32_t name, flags; /* name: a number (numbered.h); 0: empty */
        uint32_t kind;
    } seen[TOP_SEEN]; /* cache of kinds by the name's number */
    struct top_row *rows;
    size_t n_rows, rows_room;
    size_t last_row;       /* index of the row found last */
    uint32_t *row_slots;   /* index + 1 of a row, by key; 0: free */
    size_t n_row_slots;    /* a power of two */
    struct top_work *work; /* by external id, open addressing */
    size_t n_work, work_slots;
    struct top_opened *open;
    size_t n_open, open_room;
    struct module_sums modules;
};

/* The key of a row. apart: a separate row for overhead and for calls without a known maker, which
 * must not become children of spans. */
static inline uint64_t row_key(const struct json_place *at, bool apart)
{
    return (uint64_t)at->pid << 33 | (uint64_t)at->tid << 1 | apart; /* pids have at most 31 bits */
}

/* Frees everything collected; there will be no table. */
void top_drop(struct top *t);

/* Makes room for one more element of `size` bytes. False: the memory is used up, the table is
 * dropped. */
bool top_grow(struct top *t, void **array, size_t *room, size_t n, size_t size);

/* The row with this key, made when it is new; NULL: the table is dropped. A new row may move the
 * others. */
struct top_row *top_row_of(struct top *t, uint64_t key);

/* Inserts a span at its place. */
void top_insert(struct top *t, struct top_spans *spans, const struct top_span *span);

/* True when a comes before b in a row, regardless of file order. */
static inline bool top_before(const struct top_span *a, const struct top_span *b)
{
    return a->start < b->start || (a->start == b->start && a->end > b->end);
}

/* The index of a kind, made when it is new; UINT32_MAX: the table is dropped. */
uint32_t top_kind_of(struct top *t, const char *name, size_t len, uint32_t flags);

/* Device time of the work that names the span. */
int64_t top_work_of(const struct top *t, uint64_t external);

/* row_key() >> 1 of the thread that the steps belong to, else of the one with the most spans; 0:
 * there is none. After top_add_up(). */
uint64_t top_main_thread(const struct top *t);

/* True when the window has ranges of torch.profiler's steps. */
bool top_has_other_steps(const struct top *t);

/* Adds all rows to the kinds. False: the table is dropped. */
bool top_add_up(struct top *t);
