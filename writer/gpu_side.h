/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of the writer's passes: when CUPTI's kinds are on, when it is flushed, where its
 * records go, and when a window has all of them. cprof thread. */
#ifndef WRITER_GPU_SIDE_H
#define WRITER_GPU_SIDE_H

#include "writer/join/join.h"

#define POLL_MS 10 /* between passes while something is recorded */

/* How the passes let their windows be reached. */
struct gpu_side {
    const struct gpu_source *source; /* NULL: nothing here does anything */
    struct join_windows in;
    /* Takes the edges that were posted meanwhile: which window a record is of must be known. */
    void (*catch_up)(void);
    uint64_t caught_up; /* ticks: edges of before have been taken */
    /* Adds what went wrong with records to the right window. */
    void (*blame)(enum loss cause, uint64_t n);
    enum action action;   /* of the step that is being run */
    bool holding;         /* that step is recorded whatever its action: it may become the trace */
    uint64_t calls_since; /* of this pass */
    uint64_t looked;      /* ticks: when it was asked for */
    uint64_t came;        /* ticks: when records last came, of whatever window */
    uint64_t flushed_ns, fresh_ns;
    uint64_t swept_ns, swept; /* when threads that have ended were last forgotten; swept: ticks */
    uint64_t asked_memory;    /* ticks: of before, records are awaited for join_memory() */
    bool given_up;            /* at exit: what has not come will not */
    /* CUPTI has recorded calls, or a graph was captured: what threads do is remembered */
    bool in_use;
    enum gpu_want told; /* to the source, last */
    int again_ms;       /* its answer */
};

/* The step that begins has this action; hold: it is recorded all the same, because it may become
 * the trace. */
void gpu_side_step(struct gpu_side *g, enum action action, bool hold);

/* After the rings were looked at, before they are drained. draining: a closed window waits. */
void gpu_side_look(struct gpu_side *g, bool draining);

/* Takes a span of the window, so that CUPTI's records of calls find the span around them. True:
 * the span is a hooked call whose row waits for CUPTI's record. Before CUPTI has recorded any call
 * nothing is remembered: no later record can lie inside a span that has ended. */
bool gpu_side_span(struct gpu_side *g, struct window *w, const struct record_owner *owner,
                   const struct record *r);

/* Takes a REC_NODE. */
void gpu_side_node(struct gpu_side *g, const struct record_owner *owner, const struct record *r);

/* For how long no pass is needed: POLL_MS while calls are recorded, or while the source does not
 * know yet what is wanted since the last edge; -1: until something happens. */
int gpu_side_pause_ms(const struct gpu_side *g);

/* After the rings were drained: takes what CUPTI has delivered. */
void gpu_side_collect(struct gpu_side *g, bool draining);

/* No window is there. */
void gpu_side_idle(struct gpu_side *g);

/* At exit, when the deadline is near: takes what there is, finished or not. Everything is complete
 * from then on. */
void gpu_side_give_up(struct gpu_side *g);

/* Everything that the closed window caused has come, or will not come. */
bool gpu_side_complete(const struct gpu_side *g, const struct window *w, bool stopping);

#endif
