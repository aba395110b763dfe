/* SPDX-License-Identifier: Apache-2.0 */
/* The makers of CUDA graph nodes, and what the nodes compute. Kept from capture on, long before the
 * graph is launched. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record.h"
#include "writer/sums/sums.h"

struct node_maker {
    uint64_t span;     /* id; 0: nothing was recorded then */
    uint64_t transfer; /* id of the communication library's call around it; 0: none */
    const char *name;
    uint32_t name_len : 20;
    uint32_t source_len : 12;    /* of XLA's: the source line, behind the name */
    uint32_t module;             /* id (modules.h); 0: none */
    const struct captured *work; /* of the innermost span around it with a FLOP count; NULL: none */
    /* of the outermost, for its first kernel only; totals count it at each launch. Else NULL. */
    const struct captured *all;
};

/* Remembers the maker of a node; a copy of a known node gets the maker of the original. Of more
 * than a million nodes, those least recently made or looked up are forgotten. */
void nodes_add(uint64_t node, uint64_t original, const struct node_maker *maker);

/* Sets `work` and `all` of a maker from the spans around the node; without memory, neither. They
 * stay valid until the next call but nodes_add(). */
void nodes_count(struct node_maker *maker, const struct record_node *about);

/* FLOPs of a kernel that does all work of its span; 0: it does not, or unknown. maker may be
 * NULL. */
uint64_t nodes_flops(const struct node_maker *maker);

/* Nodes without memory, and nodes looked up after they were forgotten, since the last call. */
uint64_t nodes_refused(void);

/* The maker of a node, valid until the next call; NULL: unknown. */
const struct node_maker *nodes_find(uint64_t node);
