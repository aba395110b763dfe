/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes, instantiation (which copies the nodes), update, launch. */
#include "tests/sim/core.h"

#include <stdlib.h>
#include <string.h>

static atomic_uint last_graph;

CUgraph sim_new_graph(bool internal)
{
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph)
        abort();
    graph->id = ++last_graph;
    graph->internal = internal;
    if (!internal) {
        struct sim_resource_info info = {.graph = graph->id, .graph_handle = graph};
        sim_tap()->resource(SIM_GRAPH_CREATED, &info);
    }
    return graph;
}

void sim_free_graph(CUgraph graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        free(graph->nodes[i]->before);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph);
}

static CUgraphNode new_node(CUgraph graph, enum node_kind kind, const struct op *op)
{
    CUgraphNode node = calloc(1, sizeof *node);
    if (!node)
        abort();
    if (graph->n_nodes == graph->room) {
        graph->room = graph->room ? graph->room * 2 : 16;
        graph->nodes = realloc(graph->nodes, (size_t)graph->room * sizeof *graph->nodes);
        if (!graph->nodes)
            abort();
    }
    node->index = graph->n_nodes;
    node->id = (uint64_t)graph->id << 32 | (uint32_t)(graph->n_nodes + 1);
    node->kind = kind;
    node->graph = graph;
    if (op)
        node->op = *op;
    graph->nodes[graph->n_nodes++] = node;
    return node;
}

static void set_before(CUgraphNode node, const CUgraphNode *before, size_t n)
{
    if (!n)
        return;
    node->before = malloc(n * sizeof(CUgraphNode));
    if (!node->before)
        abort();
    memcpy(node->before, before, n * sizeof(CUgraphNode));
    node->n_before = (int)n;
}

static int type_of(enum node_kind kind)
{
    static const int types[] = {
        [NODE_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL, [NODE_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [NODE_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,   [NODE_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [NODE_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
    };
    return types[kind];
}

CUgraphNode sim_add_node(CUgraph graph, enum node_kind kind, const struct op *op,
                         const CUgraphNode *before, size_t n)
{
    CUgraphNode node = new_node(graph, kind, op);
    set_before(node, before, n);
    struct sim_resource_info info = {.graph = graph->id,
                                     .node = node->id,
                                     .node_type = type_of(kind),
                                     .node_handle = node,
                                     .graph_handle = graph};
    sim_tap()->resource(SIM_GRAPH_NODE_CREATED, &info);
    return node;
}

/* The graph's nodes, each behind those it depends on, otherwise in order of creation. NULL: the
 * graph has a cycle. */
static CUgraphNode *in_order(CUgraph graph)
{
    int n = graph->n_nodes, done = 0;
    CUgraphNode *order = calloc((size_t)n + 1, sizeof *order);
    bool *placed = calloc((size_t)n + 1, sizeof *placed), progress = true;
    while (order && placed && done < n && progress) {
        progress = false;
        for (int i = 0; i < n; i++) {
            bool ready = !placed[i];
            for (int k = 0; ready && k < graph->nodes[i]->n_before; k++)
                ready = placed[graph->nodes[i]->before[k]->index];
            if (ready) {
                placed[i] = progress = true;
                order[done++] = graph->nodes[i];
            }
        }
    }
    free(placed);
    if (done < n) {
        free(order);
        return NULL;
    }
    return order;
}

static CUgraph clone_graph(CUgraph graph)
{
    CUgraphNode *order = in_order(graph);
    if (!order)
        return NULL;
    CUgraph copy = sim_new_graph(true);
    CUgraphNode *copies = calloc((size_t)graph->n_nodes + 1, sizeof(CUgraphNode));
    CUgraphNode *before = calloc((size_t)graph->n_nodes + 1, sizeof(CUgraphNode));
    for (int i = 0; i < graph->n_nodes; i++) {
        CUgraphNode from = order[i], node = new_node(copy, from->kind, &from->op);
        copies[from->index] = node;
        for (int k = 0; k < from->n_before; k++)
            before[k] = copies[from->before[k]->index];
        set_before(node, before, (size_t)from->n_before);
        struct sim_resource_info info = {
            .graph = copy->id,
            .from_graph = graph->id,
            .node = node->id,
            .from_node = from->id,
            .node_type = type_of(from->kind),
            .node_handle = node,
            .from_node_handle = from,
            .graph_handle = copy,
            .from_graph_handle = graph,
        };
        sim_tap()->resource(SIM_GRAPH_NODE_CLONED, &info);
    }
    free(before);
    free(copies);
    free(order);
    return copy;
}

CUresult sim_instantiate(CUgraphExec *exec, CUgraph graph)
{
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph copy = clone_graph(graph);
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec made = calloc(1, sizeof *made);
    if (!made)
        abort();
    made->graph = copy;
    made->id = copy->id;
    made->references = 1;
    *exec = made;
    struct sim_resource_info info = {.graph = copy->id,
                                     .from_graph = graph->id,
                                     .graph_handle = copy,
                                     .from_graph_handle = graph};
    sim_tap()->resource(SIM_GRAPH_EXEC_CREATED, &info);
    return CUDA_SUCCESS;
}

void sim_drop_exec(CUgraphExec exec)
{
    if (atomic_fetch_sub(&exec->references, 1) != 1)
        return;
    sim_free_graph(exec->graph);
    free(exec);
}

static bool same_shape(CUgraphNode a, CUgraphNode b)
{
    if (a->kind != b->kind || a->n_before != b->n_before)
        return false;
    return a->kind != NODE_COPY || a->op.work.copy_kind == b->op.work.copy_kind;
}

CUresult sim_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExecUpdateResultInfo ignored;
    info = info ? info : &ignored;
    memset(info, 0, sizeof *info);
    CUgraphNode *order = in_order(graph);
    bool same = order && graph->n_nodes == exec->graph->n_nodes;
    for (int i = 0; same && i < graph->n_nodes; i++)
        if (!same_shape(order[i], exec->graph->nodes[i])) {
            info->errorNode = order[i];
            same = false;
        }
    for (int i = 0; same && i < graph->n_nodes; i++)
        exec->graph->nodes[i]->op = order[i]->op;
    free(order);
    info->result =
        same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static void count_node(enum node_kind kind)
{
    if (kind == NODE_KERNEL)
        sim_add(FIGURE_GRAPH_KERNELS, 1);
    else if (kind == NODE_COPY)
        sim_add(FIGURE_GRAPH_COPIES, 1);
    else if (kind == NODE_FILL)
        sim_add(FIGURE_GRAPH_FILLS, 1);
}

static void place(struct sim_work *work, CUgraphExec exec, CUstream stream)
{
    work->correlation = sim_correlation();
    work->device = (uint32_t)stream->context->device;
    work->context = stream->context->id;
    work->stream = stream->id;
    work->graph = exec->id;
    work->async = true;
}

CUresult sim_launch_graph(CUgraphExec exec, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stream->capture && sim_captured_graph(stream, exec, &result))
        return result;
    struct graph_run *run = calloc(1, sizeof *run);
    size_t n = (size_t)exec->graph->n_nodes;
    if (!run || !(run->ops = calloc(n + 1, sizeof *run->ops)) ||
        !(run->ends = calloc(n + 1, sizeof *run->ends)))
        abort();
    atomic_fetch_add(&exec->references, 1);
    run->exec = exec;
    run->n = (int)n;
    run->whole.kind = SIM_GRAPH_WHOLE;
    place(&run->whole, exec, stream);
    sim_add(FIGURE_GRAPHS, 1);
    sim_tap()->queued(&run->whole);
    for (int i = 0; i < run->n; i++) {
        CUgraphNode node = exec->graph->nodes[i];
        run->ops[i] = node->op;
        if (node->kind == NODE_HOST || node->kind == NODE_EMPTY)
            continue;
        place(&run->ops[i].work, exec, stream);
        run->ops[i].work.node = node->id;
        count_node(node->kind);
        sim_tap()->queued(&run->ops[i].work);
    }
    struct item *item = sim_item(stream, ITEM_GRAPH);
    item->run = run;
    sim_queue(stream, item);
    return CUDA_SUCCESS;
}

void sim_free_run(struct graph_run *run)
{
    sim_drop_exec(run->exec);
    free(run->ops);
    free(run->ends);
    free(run);
}
