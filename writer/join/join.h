/* SPDX-License-Identifier: Apache-2.0 */
/* Joins CUPTI's records with hooked calls and operators, and writes them into the window of the
 * call that caused them:
 *
 *     CUPTI's call  <->  hooked call   innermost span of the thread at the call's time, same name
 *     call          <->  operator      parent of the hooked call; without a hook, innermost span
 *     kernel …      <->  call          correlation id; a kernel that comes first waits
 *     graph node    <->  operator      node id, known since capture
 *
 * One row per correlation id: a driver call that is part of a runtime call has none. cprof
 * thread. */
#pragma once

#include "writer/window/window.h"

/* How the join finds windows; at() and numbered() may return NULL. */
struct join_windows {
    struct window *(*at)(uint64_t ticks);        /* the window that takes what begins then */
    struct window *(*numbered)(uint64_t serial); /* the unfinished window with this serial */
    /* flushes what has piled up and drains full rings; called between records */
    void (*relieve)(void);
    const struct window_shared *shared;
};

/* Takes a record of CUPTI. */
void join_take(const struct join_windows *in, const struct gpu_record *r);

/* Writes a kernel, copy, fill or graph into the window: in its stream's row, without its call. */
void join_alone(const struct join_windows *in, struct window *w, const struct gpu_record *r);

/* Takes a span that has ended into the timeline of its thread. True: it is a hooked call that waits
 * for CUPTI's record, so its row is not written now. reported: CUPTI recorded calls at that
 * time. */
bool join_span(const struct join_windows *in, struct window *w, const struct record_owner *owner,
               const struct record *r, bool reported);

/* Takes a REC_NODE. */
void join_node(const struct record_owner *owner, const struct record *r);

/* The end of a pass: retries what waited for rings. fresh: records have come, so what waited for a
 * record of an earlier buffer has waited long enough. */
void join_pass(const struct join_windows *in, bool fresh);

/* All records of before `until` (ticks) have come: adds up driver memory in the order of time,
 * because each thread has a buffer of its own. */
void join_memory(const struct join_windows *in, uint64_t until);

/* How much of the window has not come: calls without CUPTI's record, launches without their
 * kernel. */
uint64_t join_missing(const struct window *w);

/* Hooked calls of all windows that wait for CUPTI's record. */
uint64_t join_waiting(void);

/* The window is dropped: its calls are not waited for and not counted as lost. */
void join_forget(struct window *w);

/* The window is about to be finished: writes what still waits, and counts it. */
void join_settle(const struct join_windows *in, struct window *w);

/* A window that ended at `end` (ticks) is finished. */
void join_finished(uint64_t end);

/* Records that came too late for their file, since the last call. */
uint64_t join_late(void);

/* No window is open: forgets what threads did. */
void join_idle(void);

/* The other headers of this room. */
#include "writer/join/correlation.h"
#include "writer/join/events.h"
#include "writer/join/gpu_place.h"
#include "writer/join/timeline.h"
