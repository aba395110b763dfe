/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a pass: when CUPTI's kinds are on, when it is flushed, where its records go, and
 * when a window has all of them. cprof thread. */
#pragma once

#include "writer/join/join.h"

#define POLL_MS 10 /* between passes while recording */

/* State of the GPU side, and how it reaches the windows of passes.c. */
struct gpu_side {
    const struct gpu_source *source; /* NULL: all functions do nothing */
    const struct gpu_states *states; /* NULL: not recorded */
    struct join_windows in;
    /* Takes the edges posted meanwhile, to know which window a record is of. */
    void (*catch_up)(void);
    uint64_t caught_up; /* ticks: earlier edges are taken */
    /* Adds losses of records to the right window. */
    void (*count_loss)(enum loss cause, uint64_t n);
    enum action action;   /* of the current step */
    bool holding;         /* the step is recorded whatever its action: it may become the trace */
    uint64_t held_ns;     /* clock_monotonic_ns() since when it is holding */
    uint64_t calls_since; /* source->calls_since() in this pass */
    uint64_t looked;      /* ticks: when calls_since was read */
    uint64_t came;        /* ticks: when records of any window last came */
    uint64_t flushed_ns, fresh_ns;
    uint64_t swept_ns, swept; /* when ended threads were last forgotten; swept: ticks */
    uint64_t asked_memory;    /* ticks: records from before are awaited for join_memory() */
    bool given_up;            /* at exit: missing records are not waited for any more */
    /* CUPTI has recorded calls, or a graph was captured: threads' spans are remembered */
    bool in_use;
    enum gpu_want told; /* what the source was last told */
    bool watching;      /* what `states` was last told */
    unsigned hurried;   /* flushes to learn which GPUs the program uses */
    int again_ms;       /* its answer: ms until it wants to be asked again */
};

/* A step begins with this action. hold: it is recorded whatever its action, because it may become
 * the trace. */
void gpu_side_step(struct gpu_side *g, enum action action, bool hold);

/* Once per pass, after the rings' fill levels are read and before they are drained. draining: a
 * closed window waits. */
void gpu_side_look(struct gpu_side *g, bool draining);

/* Takes a span of the window, so that CUPTI's calls find the spans around them. True: it is a
 * hooked call whose row waits for CUPTI's record. Before CUPTI has recorded a call nothing is
 * remembered, because no later record can lie in an ended span. */
bool gpu_side_span(struct gpu_side *g, struct window *w, const struct record_owner *owner,
                   const struct record *r);

/* Takes a REC_NODE. */
void gpu_side_node(struct gpu_side *g, const struct record_owner *owner, const struct record *r);

/* ms until the next pass is needed: POLL_MS while calls are recorded, or while the source does not
 * know the wish of the last edge yet; -1: until something happens. */
int gpu_side_pause_ms(const struct gpu_side *g);

/* Takes CUPTI's records, after the rings are drained. */
void gpu_side_collect(struct gpu_side *g, bool draining);

/* Called when there is no window. */
void gpu_side_idle(struct gpu_side *g);

/* At exit, near the deadline: takes what has come, even unfinished. Every window is complete from
 * then on. */
void gpu_side_give_up(struct gpu_side *g);

/* True when everything that the closed window caused has come, or will not come. */
bool gpu_side_complete(const struct gpu_side *g, const struct window *w, bool stopping);
