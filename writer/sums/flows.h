/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows from a forward operator to the backward node that it made. They are joined by torch's
 * thread id and autograd sequence number, as in Kineto: of the operators with one number, the last
 * to start made the node. cprof thread. */
#pragma once

#include "writer/json/json.h"

/* forward operators remembered: direct-mapped by sequence number, the newest stay */
#define FLOWS_SLOTS (1u << 16)

struct flow_source {
    uint64_t window; /* serial of the window whose file has the operator; 0: empty */
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

/* The start of the arrow to a backward operator; NULL: the forward operator is not in this
 * window. */
const struct json_place *flows_find(const struct flows *f, uint64_t window, uint64_t forward_thread,
                                    int64_t sequence);

/* A backward operator. */
struct flow_end {
    uint64_t id, forward_thread;
    uint64_t start; /* ticks */
    int64_t sequence;
    struct json_place at;
};

/* Draws the arrow to the backward operator, if its forward operator is known. */
void flows_draw(const struct flows *f, uint64_t window, const struct flow_end *end,
                struct buf *body);

/* Draws the arrows of `waiting`, an array of struct flow_end, that start before `ticks`; the others
 * stay. All records before `ticks` must have been taken. They wait because autograd runs a GPU's
 * backward pass on another thread, whose ring may be drained before the forward thread's. */
void flows_settle(const struct flows *f, uint64_t window, struct buf *waiting, uint64_t ticks,
                  struct buf *body);
