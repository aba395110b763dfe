/* SPDX-License-Identifier: Apache-2.0 */
/* What one application thread did lately: the spans that have ended, newest last, and those still
 * open. It answers which span was the innermost one at a given time, which is how a call that
 * passed no hook finds the operator that made it, and how CUPTI's record of a call finds the hooked
 * one. Spans are taken in the order in which they ended, so the answer needs no waiting for a
 * parent to end (T14): the first span that ends after a time either contains it or leads there by
 * its parents. cprof thread. */
#ifndef WRITER_JOIN_TIMELINE_H
#define WRITER_JOIN_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"

/* Spans remembered per thread, powers of two: what a thread does in the time that CUPTI may keep a
 * buffer. More only while the oldest is a call that waits for its record; 64 bytes each. */
#define TIMELINE_NOTES      (1u << 17)
#define TIMELINE_MOST_NOTES (1u << 21)

enum note_state {
    NOTE_SPAN, /* not a call, or a call whose row is written */
    NOTE_CALL, /* a hooked call that waits for CUPTI's record of it */
};

/* One ended span. */
struct note {
    uint64_t id, parent;
    uint64_t start, end; /* ticks */
    const char *name;    /* of calls and ranges, kept for ever; NULL for operators */
    uint32_t name_len;
    /* the innermost user's range at or above it (ranges.h); RANGE_UNKNOWN before anyone asked */
    uint32_t range;
    uint32_t stack; /* id of its stack, 0 = none */
    uint32_t where; /* EXTRA_DTYPE of a span with a FLOP count; 0: it has none */
    uint64_t flops;
    uint64_t bytes : 40;   /* that the count says are moved; a terabyte at most */
    uint64_t category : 8; /* enum category */
    uint64_t state : 8;    /* enum note_state */
    uint64_t flags : 8;    /* enum record_flags */
};

/* graph nodes whose time is remembered, per thread that makes any: as many as launches may be
 * captured while CUPTI keeps a buffer; 1 MB, of which as much is present as there were nodes */
#define TIMELINE_NODES (1u << 17)

struct timeline {
    uint32_t tid;
    struct timeline *next;  /* all of them */
    struct timeline *chain; /* same hash */
    struct thread_log *log; /* of the thread while it is known, or NULL */
    uint32_t room;          /* notes in the ring, a power of two */
    struct note *notes;     /* the ring, mapped */
    uint32_t *by_id;        /* position of an id in the ring, by its low bits; mapped behind it */
    uint64_t ended;         /* notes ever taken; the newest is at (ended - 1) */
    uint64_t calls_waiting; /* notes that are NOTE_CALL */
    uint32_t open_at;       /* where on the thread's stack the open span was that was found last */
    uint64_t looked;        /* pass in which the log was last looked for, + 1 */
    /* ticks at which it made graph nodes, a ring of TIMELINE_NODES; NULL: none */
    uint64_t *node_times;
    uint64_t nodes; /* made ever */
    unsigned idle;  /* sweeps since somebody asked for it */
    /* window serial << 32 | tid that last got a thread_name event, when there is no log */
    uint64_t named;
};

/* The innermost span at a time. */
struct moment {
    struct note *note; /* the ended span, or NULL: */
    struct note open;  /* …then the open one, when open.id != 0 */
    bool lost;         /* another one, which may have ended since the ring was drained */
    uint64_t before,
        /* ticks: end of what ended last before it, start of what starts next; 0, UINT64_MAX */
        after;
};

/* The timeline of a thread; made when it is new. NULL: no memory, or the address space is limited
 * and the rings have their share (space.h). */
struct timeline *timeline_of(uint32_t tid);

/* All timelines, by `next`. */
struct timeline *timeline_first(void);

/* A new pass begins: threads that had no log may have one by now. */
void timeline_new_pass(void);

/* Takes a span that has ended. Returns the note so that the caller can set name and state. A
 * waiting call in its place must have been dealt with: timeline_oldest(). */
struct note *timeline_add(struct timeline *t, const struct record *r);

/* The note that the next timeline_add() will overwrite; NULL while there is room. Makes room, if it
 * can, for a call that waits. */
struct note *timeline_oldest(struct timeline *t);

/* True when everything that the thread had ended before `ticks` has been taken, so that
 * timeline_at() can be asked. */
bool timeline_knows(const struct timeline *t, uint64_t ticks);

/* What was innermost at `ticks`; false: nothing. */
bool timeline_at(struct timeline *t, uint64_t ticks, struct moment *out);

/* The span with this id, ended (a pointer into the ring) or open (copied to *open). NULL: not known
 * any more. */
struct note *timeline_span(struct timeline *t, uint64_t id, struct note *open);

/* Whether all that the thread has ended is known. */
bool timeline_is_drained(struct timeline *t);

/* The oldest note at or after *at that is still there (*at becomes its position); NULL: none. For
 * walking: next is *at + 1. */
struct note *timeline_note(struct timeline *t, uint64_t *at);

/* The innermost span with a FLOP count at or above the span with this id, as timeline_span(). NULL:
 * none is known. */
struct note *timeline_counted(struct timeline *t, uint64_t id, struct note *open);

/* The thread made a node of a graph at `ticks`. */
void timeline_add_node(struct timeline *t, uint64_t ticks);

/* True when it made one in [start, end]: what it launched was captured, not run. */
bool timeline_made_node(const struct timeline *t, uint64_t start, uint64_t end);

/* Forgets what has ended, threads too, but for calls that wait. Between windows. */
void timeline_forget(void);

/* Forgets the threads that have ended and that nobody has asked for since the call before the last
 * one, but for calls that wait. Not to be called before all that was under way at the last call has
 * come. Inside windows, too: one may be as long as the run. */
void timeline_sweep(void);

#endif
