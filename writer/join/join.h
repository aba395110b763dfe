/* SPDX-License-Identifier: Apache-2.0 */
/* Joins what CUPTI delivered with what the hooks saw and puts it into the window of the call that
 * caused it:
 *
 *     call of CUPTI  <->  hooked call    the innermost span of the thread at the call's time is the
 *                    hooked call of that name
 *     call           <->  operator       the hooked call's parent; without a hook, the innermost
 *                    span itself
 *     kernel …       <->  call           correlation id; what comes before its call waits for it
 *     graph node     <->  operator       by the node's id, from the time when it was captured
 *
 * One row per correlation id: a driver call that is part of a runtime call has none. cprof
 * thread. */
#ifndef WRITER_JOIN_JOIN_H
#define WRITER_JOIN_JOIN_H

#include "writer/window/window.h"

/* How the join reaches the windows; both may give NULL. */
struct join_windows {
    struct window *(*at)(uint64_t ticks);        /* that takes what begins then */
    struct window *(*numbered)(uint64_t serial); /* that is not finished yet */
    /* writes what has piled up and looks after the rings; called between records */
    void (*relieve)(void);
    const struct window_shared *shared;
};

/* Takes a record. */
void join_take(const struct join_windows *in, const struct gpu_record *r);

/* Takes a span that has ended: the memory of its thread. True when it is a hooked call that waits
 * for CUPTI's record of it, whose row is not to be written now. reported: CUPTI records calls at
 * that time. */
bool join_span(const struct join_windows *in, struct window *w, const struct record_owner *owner,
               const struct record *r, bool reported);

/* Takes a REC_NODE. */
void join_node(const struct record_owner *owner, const struct record *r);

/* The end of a pass: asks again for what could not be told before. fresh: records came in it, so
 * that what waited for a record of an earlier buffer has waited long enough. */
void join_pass(const struct join_windows *in, bool fresh);

/* All records of before these ticks have come: what they tell of driver memory is added up in the
 * order of time, for each thread has a buffer of its own. */
void join_memory(const struct join_windows *in, uint64_t until);

/* Things of the window that must still come: calls without CUPTI's record, launches without their
 * kernel. */
uint64_t join_missing(const struct window *w);

/* Hooked calls of all windows that wait for CUPTI's record of them. */
uint64_t join_waiting(void);

/* Nobody wants the window: what still comes of its calls is no loss, and is not waited for. */
void join_forget(struct window *w);

/* The window is about to be finished: what still waits is written as it is and counted. */
void join_settle(const struct join_windows *in, struct window *w);

/* A window that ended at these ticks is finished. */
void join_finished(uint64_t end);

/* Records that came too late for their file, since last asked. */
uint64_t join_late(void);

/* No window is open: forget what threads did. */
void join_idle(void);

/* What else the room offers. */
#include "writer/join/correlation.h"
#include "writer/join/events.h"
#include "writer/join/timeline.h"

#endif
