/* SPDX-License-Identifier: Apache-2.0 */
/* Who made the nodes of CUDA graphs: kept from the time of capture, long before the graph is launched. cprof thread. */
#ifndef WRITER_NODES_H
#define WRITER_NODES_H

#include <stdbool.h>
#include <stdint.h>

struct node_maker {
    uint64_t span; /* id; 0 = nothing was recorded then */
    const char *name;
    uint32_t name_len;
};

/* Remembers the maker of a node; a node that is the copy of one known already gets that one's maker. */
void nodes_add(uint64_t node, uint64_t original, const struct node_maker *maker);

/* Who made a node; NULL: unknown. */
const struct node_maker *nodes_find(uint64_t node);

#endif
