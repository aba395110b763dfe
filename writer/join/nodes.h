/* SPDX-License-Identifier: Apache-2.0 */
/* Who made the nodes of CUDA graphs, and what they compute: kept from the time of capture, long
 * before the graph is launched. cprof thread. */
#ifndef WRITER_JOIN_NODES_H
#define WRITER_JOIN_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"
#include "writer/sums/sums.h"

struct node_maker {
    uint64_t span;     /* id; 0 = nothing was recorded then */
    uint64_t transfer; /* id of the communication library's call around it; 0 = none */
    const char *name;
    uint32_t name_len;
    const struct captured *work; /* of the innermost counted span around it; NULL: none */
    /* of the outermost, for the first of its kernels only: what totals count at each launch;
     * else NULL */
    const struct captured *all;
};

/* Remembers the maker of a node; a node that is the copy of one known already gets that one's
 * maker. Of more than a million those that were not asked for, or made, for longest are
 * forgotten. */
void nodes_add(uint64_t node, uint64_t original, const struct node_maker *maker);

/* Sets `work` and `all` of a node's maker by what stood around it. Nothing is set when there is no
 * memory. The next call but nodes_add() may make them void. */
void nodes_count(struct node_maker *maker, const struct record_node *about);

/* FLOPs of a kernel that does all of its span's work; 0: it does not, or they are not known. maker
 * may be NULL. */
uint64_t nodes_flops(const struct node_maker *maker);

/* Nodes that there was no memory for, and nodes asked for that had been forgotten, since last
 * asked. */
uint64_t nodes_refused(void);

/* Who made a node, until the next call; NULL: unknown. */
const struct node_maker *nodes_find(uint64_t node);

#endif
