/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: what marks, epochs, regions and new schedules ask for. They are handled one at a time.
 * While the program's own schedule runs, which may wait for other threads, theirs are queued. */
#pragma once

#include "preload/steps/steps.h"

/* One call into this room: a mark, an epoch's end, a region's edge, a new schedule. */
struct request {
    enum edge_kind kind;
    enum step_source source;
    uint64_t ticks;
    int64_t samples, tokens;
    bool called;            /* EDGE_EPOCH: cprof_epoch() was called */
    steps_chooser *chooser; /* EDGE_SCHEDULE */
    void *arg;
    bool demand; /* EDGE_START, EDGE_STOP: of a window on demand; on the cprof thread */
};

/* True when the request counts. False: the process is over or a child, the thread crosses an edge
 * already, or it runs a trace handler or the program's schedule. */
bool requests_admit(const struct request *given);

/* Passes an admitted request to handle(), after those that were queued before. Queues it when
 * another thread is handling requests. handle() runs under the edge's lock. It returns false,
 * without the lock, as requests_ask() does. */
void requests_serve(const struct request *given, bool (*handle)(const struct request *r));

/* Calls the program's schedule without the lock: it may wait for another thread that marks a step.
 * Returns false, without the lock, when the answer is too late or the process is over or a forked
 * child. */
bool requests_ask(steps_chooser *choose, void *arg, const struct train_time *time, int64_t position,
                  enum action *answer);

/* True in a child of a plain clone(): nobody there releases the lock, and nothing is recorded. */
bool requests_in_cloned_child(void);
