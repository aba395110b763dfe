/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows from a forward operator to the backward node it made, joined by (torch's thread id,
 * autograd sequence number) as Kineto joins them: of the operators with one number, the one that
 * starts last made the node. cprof thread. */
#ifndef WRITER_SUMS_FLOWS_H
#define WRITER_SUMS_FLOWS_H

#include "writer/json/json.h"

/* forward operators remembered: direct-mapped by sequence number, the newest win */
#define FLOWS_SLOTS (1u << 16)

struct flow_source {
    uint64_t window; /* serial of the window whose file holds the operator; 0 = empty */
    int64_t sequence;
    uint64_t thread;
    struct json_place at;
};

struct flows {
    struct flow_source sources[FLOWS_SLOTS];
};

/* Remembers a forward operator. */
void flows_forward(struct flows *f, uint64_t window, uint64_t torch_thread, int64_t sequence,
                   const struct json_place *at);

/* Where the arrow to a backward operator starts; NULL: its forward operator is not in this window's
 * file. */
const struct json_place *flows_find(const struct flows *f, uint64_t window, uint64_t forward_thread,
                                    int64_t sequence);

/* A backward operator. */
struct flow_end {
    uint64_t id, forward_thread;
    uint64_t start; /* ticks */
    int64_t sequence;
    struct json_place at;
};

/* Writes the arrow to it, if there is one. */
void flows_draw(const struct flows *f, uint64_t window, const struct flow_end *end,
                struct buf *body);

/* The engine runs a GPU's backward on a thread of its own, whose ring may be drained before the one
 * that has the forward operators. `waiting` holds such ends, one behind the other: those that start
 * before `ticks`, when everything recorded before has been taken, are drawn, the others stay. */
void flows_settle(const struct flows *f, uint64_t window, struct buf *waiting, uint64_t ticks,
                  struct buf *body);

#endif
