/* SPDX-License-Identifier: Apache-2.0 */
/* The recent spans of one application thread: those that have ended, newest last, and those still
 * open. It tells the innermost span at a given time. By that a call without a hook finds its
 * operator, and CUPTI's record of a call finds the hooked call. Spans are kept in the order of
 * their ends: the first one that ends after a time contains it, or has a parent that does. So no
 * lookup waits for a parent to end (T14). cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"

/* Spans remembered per thread, powers of two, 72 bytes each: what a thread does while CUPTI may
 * keep a buffer. More only while the oldest is a call that waits for its record. */
#define TIMELINE_NOTES      (1u << 17)
#define TIMELINE_MOST_NOTES (1u << 21)

enum note_state {
    NOTE_SPAN, /* no call, or a call whose row is written */
    NOTE_CALL, /* a hooked call that waits for CUPTI's record */
};

/* One ended span. */
struct note {
    uint64_t id, parent;
    uint64_t start, end; /* ticks */
    const char *name;    /* of calls and ranges, never freed; NULL for operators */
    uint32_t name_len : 20;
    uint32_t source_len : 12; /* of XLA's ranges: the source line, behind the name */
    /* number of the innermost range of the user at or above it (ranges.h); RANGE_UNKNOWN: not
     * looked up */
    uint32_t range;
    uint32_t stack; /* id of its stack; 0: none */
    uint32_t where; /* EXTRA_DTYPE of a span with a FLOP count; 0: no count */
    uint64_t flops;
    uint64_t bytes : 40;   /* bytes moved, as counted; at most a terabyte */
    uint64_t category : 8; /* enum category */
    uint64_t state : 8;    /* enum note_state */
    uint64_t flags : 8;    /* enum record_flags */
};

/* graph nodes whose time is remembered, per thread that makes any: what may be captured while CUPTI
 * keeps a buffer; 1 MB, touched as needed */
#define TIMELINE_NODES (1u << 17)

struct timeline {
    uint32_t tid;
    struct timeline *next;  /* in the list of all */
    struct timeline *chain; /* with the same hash */
    struct thread_log *log; /* log of the thread, or NULL */
    uint32_t room;          /* notes in the ring, a power of two */
    struct note *notes;     /* the ring, mapped */
    /* position in the ring by the low bits of an id; mapped behind the ring */
    uint32_t *by_id;
    uint64_t ended;         /* notes ever added; the newest is at (ended - 1) */
    uint64_t calls_waiting; /* notes that are NOTE_CALL */
    uint32_t open_at;       /* index, on the thread's stack, of the open span found last */
    uint64_t looked;        /* ticks when the log was last looked for */
    /* ring of TIMELINE_NODES times (ticks) at which it made graph nodes; NULL: none */
    uint64_t *node_times;
    uint64_t nodes; /* nodes ever made */
    unsigned idle;  /* sweeps since the last lookup */
    /* without a log: window naming << 32 | tid of its last thread_name event */
    uint64_t named;
};

/* The innermost span at a time. */
struct moment {
    struct note *note; /* the ended span, or NULL */
    struct note open;  /* the open span, when open.id != 0 */
    bool lost;         /* the span is unknown: it may have ended after the ring was drained */
    uint64_t before,
        /* ticks: end of the last span before, start of the next one; 0, UINT64_MAX: none */
        after;
};

/* The timeline of a thread; made for a new thread. NULL: no memory, or the rings have their share
 * of a limited address space (space.h). */
struct timeline *timeline_of(uint32_t tid);

/* All timelines, by `next`. */
struct timeline *timeline_first(void);

/* Adds a span that has ended. The caller sets name and state of the note returned. Call
 * timeline_oldest() before: a waiting call in its place is lost. */
struct note *timeline_add(struct timeline *t, const struct record *r);

/* The note that the next timeline_add() overwrites; NULL: there is room. Grows the ring, if
 * possible, when that note is a waiting call. */
struct note *timeline_oldest(struct timeline *t);

/* True when all spans that the thread ended before `ticks` have been added, so that timeline_at()
 * can answer. */
bool timeline_knows(const struct timeline *t, uint64_t ticks);

/* The innermost span at `ticks`; false: none. */
bool timeline_at(struct timeline *t, uint64_t ticks, struct moment *out);

/* Sets the note's name, and the source line that XLA's ranges have among their args (DATA_ARGS of n
 * bytes; none: n is 0). */
void timeline_name(struct note *note, struct text name, const uint8_t *args, uint32_t n);

/* The span with this id: ended (a pointer into the ring) or open (copied to *open). NULL: not known
 * any more. */
struct note *timeline_span(struct timeline *t, uint64_t id, struct note *open);

/* True when all spans that the thread has ended were added. */
bool timeline_is_drained(struct timeline *t);

/* The oldest note at or after *at that is still in the ring; *at becomes its position. NULL: none.
 * Walk on with *at + 1. */
struct note *timeline_note(struct timeline *t, uint64_t *at);

/* The innermost span with a FLOP count at or above the span with this id, as timeline_span(). NULL:
 * none is known. */
struct note *timeline_counted(struct timeline *t, uint64_t id, struct note *open);

/* The thread made a graph node at `ticks`. */
void timeline_add_node(struct timeline *t, uint64_t ticks);

/* True when the thread made a graph node in [start, end]: its launch was captured, not run. */
bool timeline_made_node(const struct timeline *t, uint64_t start, uint64_t end);

/* Forgets ended spans and ended threads, but not calls that wait. Between windows. */
void timeline_forget(void);

/* Drops threads that have ended and were not looked up since the call before the last, unless calls
 * of theirs wait. Call it only when all records from before the last call have come. Needed inside
 * windows too, which may last as long as the run. */
void timeline_sweep(void);
