/* SPDX-License-Identifier: Apache-2.0 */
/* Makers of CUDA graph nodes. There are two tables. When the young table is full, the old one is
 * freed and the young one becomes old. A node that is looked up moves to the young table, so graphs
 * that are launched stay known. */
#include "writer/join/nodes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_NODES (1u << 10)
#define MOST_NODES  (1u << 19) /* per table */
#define CAPTURING   1024u      /* spans remembered while they make nodes */
#define EARLY       (1u << 14)

struct node {
    uint64_t id; /* 0: free */
    struct node_maker maker;
};

struct table {
    struct node *nodes; /* owned */
    uint32_t room, used;
};

static struct table young, old;
/* the largest id that was dropped; CUPTI numbers graphs in order */
static uint64_t forgotten;
static uint64_t refused;
/* Copies of unknown nodes: another thread captured the originals, and its ring is drained after
 * this one's. */
static struct {
    uint64_t node, original;
} early[EARLY];
static uint32_t n_early;
static bool added; /* a node was added since the last look at `early` */

/* ---- captured work is counted by reference ---- */

static void take_work(const struct captured *work)
{
    if (work)
        ((struct captured *)work)->refs++;
}

static void leave_work(const struct captured *work)
{
    if (work && --((struct captured *)work)->refs == 0)
        free((struct captured *)work);
}

/* ---- nodes ---- */

static struct node *node_place(const struct table *t, uint64_t id)
{
    uint32_t at = (uint32_t)(id * 0x9e3779b97f4a7c15u >> 32) & (t->room - 1);
    while (t->nodes[at].id && t->nodes[at].id != id)
        at = (at + 1) & (t->room - 1);
    return &t->nodes[at];
}

static struct node *find_node(const struct table *t, uint64_t id)
{
    struct node *n = t->room ? node_place(t, id) : NULL;
    return n && n->id ? n : NULL;
}

static bool grow_nodes(struct table *t)
{
    struct table bigger = {.room = t->room ? t->room * 2 : FIRST_NODES, .used = t->used};
    bigger.nodes = bigger.room <= MOST_NODES * 2 ? calloc(bigger.room, sizeof *bigger.nodes) : NULL;
    if (!bigger.nodes)
        return false;
    for (uint32_t i = 0; i < t->room; i++)
        if (t->nodes[i].id)
            *node_place(&bigger, t->nodes[i].id) = t->nodes[i];
    free(t->nodes);
    *t = bigger;
    return true;
}

static void forget_old(void)
{
    for (uint32_t i = 0; i < old.room; i++) {
        const struct node *n = &old.nodes[i];
        forgotten = n->id > forgotten ? n->id : forgotten;
        leave_work(n->maker.work);
        leave_work(n->maker.all);
    }
    free(old.nodes);
    old = young;
    young = (struct table){0};
}

/* NULL: no room. */
static struct node *put_node(uint64_t id, const struct node_maker *maker)
{
    if (young.used * 2 >= young.room && !grow_nodes(&young))
        return NULL;
    struct node *n = node_place(&young, id);
    take_work(maker->work);
    take_work(maker->all);
    leave_work(n->maker.work);
    leave_work(n->maker.all);
    young.used += n->id == 0;
    *n = (struct node){id, *maker};
    return n;
}

/* Resolves the copies whose original is known now. The others stay: their ring may be drained
 * next. */
static void settle_early(void)
{
    while (added && n_early) { /* repeats, because a copy may have copies */
        uint32_t n = n_early;
        n_early = 0;
        added = false;
        for (uint32_t i = 0; i < n; i++)
            if (find_node(&young, early[i].original) || find_node(&old, early[i].original))
                nodes_add(early[i].node, early[i].original, NULL);
            else
                early[n_early++] = early[i];
    }
}

static void add_early(uint64_t node, uint64_t original)
{
    if (n_early == EARLY)
        settle_early();
    if (n_early == EARLY) { /* the originals of the older half were never marked */
        n_early /= 2;
        memcpy(early, early + n_early, n_early * sizeof *early);
    }
    early[n_early].node = node;
    early[n_early++].original = original;
}

static const struct node_maker *find_maker(uint64_t node)
{
    struct node *n = node ? find_node(&young, node) : NULL;
    if (!n && node && (n = find_node(&old, node))) {
        struct node *moved = put_node(node, &n->maker);
        n = moved ? moved : n;
    }
    refused += !n && node && node <= forgotten;
    return n ? &n->maker : NULL;
}

/* All rings have been drained up to the launch by now. */
const struct node_maker *nodes_find(uint64_t node)
{
    settle_early();
    return find_maker(node);
}

void nodes_add(uint64_t node, uint64_t original, const struct node_maker *maker)
{
    const struct node_maker *from = original ? find_maker(original) : maker;
    if (node && original && !from)
        add_early(node, original);
    if (node == 0 || !from || (from->span == 0 && !from->name && !from->work))
        return;
    /* a copy: `from` may point into a table that grows or is freed */
    struct node_maker kept = *from;
    take_work(kept.work);
    take_work(kept.all);
    if (young.used >= MOST_NODES)
        forget_old();
    bool there = put_node(node, &kept) != NULL;
    refused += !there;
    added |= there;
    leave_work(kept.work);
    leave_work(kept.all);
}

uint64_t nodes_refused(void)
{
    uint64_t n = refused;
    refused = 0;
    return n;
}

/* ---- what nodes compute ---------------------------------------------------------------------- */

/* Spans that made nodes lately, by id. */
static struct {
    uint64_t span;
    struct captured *work;
} capturing[CAPTURING];

/* The work of a span; *first: it is new. NULL: none, or no memory. */
static struct captured *work_of(const struct record_counted *c, bool *first)
{
    uint32_t at = (uint32_t)(c->span * 0x9e3779b97f4a7c15u >> 40) % CAPTURING;
    *first = c->span && capturing[at].span != c->span;
    if (c->span == 0 || !*first)
        return c->span ? capturing[at].work : NULL;
    struct captured *work = calloc(1, sizeof *work);
    if (!work)
        return NULL;
    *work = (struct captured){c->flops, c->bytes, (uint32_t)c->where, 0, 0};
    leave_work(capturing[at].work);
    take_work(work);
    capturing[at].span = c->span;
    return capturing[at].work = work;
}

void nodes_count(struct node_maker *maker, const struct record_node *about)
{
    bool first = false, unused;
    if (!about->is_kernel)
        return;
    struct captured *all = work_of(&about->outer, &first);
    take_work(all); /* the inner span may take its place */
    bool one = about->inner.span == about->outer.span;
    struct captured *work = one ? all : work_of(&about->inner, &unused);
    if (all && work) {
        work->kernels++;
        maker->work = work;
        maker->all = first && all->refs > 1 ? all : NULL;
    }
    leave_work(all);
}

uint64_t nodes_flops(const struct node_maker *maker)
{
    return maker && maker->work && maker->work->kernels == 1 ? maker->work->flops : 0;
}
