/* SPDX-License-Identifier: Apache-2.0 */
/* See nodes.h. */
#include "writer/nodes.h"

#include <stdlib.h>

#define FIRST_NODES (1u << 10)
#define MOST_NODES  (1u << 20)
#define CAPTURING   1024u /* spans that may be making nodes at a time */

struct node {
    uint64_t id; /* 0: free */
    struct node_maker maker;
};

static struct node *table;
static uint32_t room, used;
static uint64_t refused;

static struct node *place(struct node *in, uint32_t n, uint64_t id)
{
    uint32_t at = (uint32_t)(id * 0x9e3779b97f4a7c15u >> 32) & (n - 1);
    while (in[at].id && in[at].id != id)
        at = (at + 1) & (n - 1);
    return &in[at];
}

static bool grow(void)
{
    uint32_t n = room ? room * 2 : FIRST_NODES;
    struct node *bigger = n <= MOST_NODES * 2 ? calloc(n, sizeof *bigger) : NULL;
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < room; i++)
        if (table[i].id)
            *place(bigger, n, table[i].id) = table[i];
    free(table);
    table = bigger;
    room = n;
    return true;
}

const struct node_maker *nodes_find(uint64_t node)
{
    struct node *n = room && node ? place(table, room, node) : NULL;
    return n && n->id ? &n->maker : NULL;
}

void nodes_add(uint64_t node, uint64_t original, const struct node_maker *maker)
{
    const struct node_maker *from = original ? nodes_find(original) : maker;
    if (node == 0 || !from || (from->span == 0 && !from->name && !from->work))
        return;
    struct node_maker kept = *from; /* `from` may point into the table that grows */
    if (used * 2 >= room && !grow()) {
        refused++;
        return;
    }
    struct node *n = place(table, room, node);
    used += n->id == 0;
    *n = (struct node){node, kept};
}

uint64_t nodes_refused(void)
{
    uint64_t n = refused;
    refused = 0;
    return n;
}

/* ---- what nodes compute ------------------------------------------------------------------------------------- */

/* Spans that made nodes lately, by their ids. */
static struct {
    uint64_t span;
    struct captured *work;
} capturing[CAPTURING];

static uint32_t works;

/* The span's work, made when it is new: *first. */
static struct captured *work_of(const struct record_counted *c, bool *first)
{
    uint32_t at = (uint32_t)(c->span * 0x9e3779b97f4a7c15u >> 40) % CAPTURING;
    *first = c->span && capturing[at].span != c->span;
    if (c->span == 0 || !*first)
        return c->span ? capturing[at].work : NULL;
    struct captured *work = works < MOST_NODES ? calloc(1, sizeof *work) : NULL;
    if (!work) /* it lives as long as the nodes do: for ever */
        return NULL;
    works++;
    *work = (struct captured){c->flops, c->bytes, (uint32_t)c->where, 0};
    capturing[at].span = c->span;
    return capturing[at].work = work;
}

void nodes_count(struct node_maker *maker, const struct record_node *about)
{
    bool first = false, unused;
    if (!about->is_kernel)
        return;
    struct captured *all = work_of(&about->outer, &first);
    bool one = about->inner.span == about->outer.span;
    struct captured *work = one ? all : work_of(&about->inner, &unused);
    if (!all || !work)
        return;
    work->kernels++;
    maker->work = work;
    maker->all = first ? all : NULL;
}

uint64_t nodes_flops(const struct node_maker *maker)
{
    return maker && maker->work && maker->work->kernels == 1 ? maker->work->flops : 0;
}
