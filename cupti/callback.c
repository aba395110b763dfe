/* SPDX-License-Identifier: Apache-2.0 */
/* Handles CUPTI's callbacks on application threads: new contexts, graph nodes, fatal errors. */
#include "cupti/callback.h"

#include <stdatomic.h>

#include "writer/writer.h"

#define STATE_SINCE 20 /* CUDA 12.2 */

static const struct cupti *api;
static struct callback_to on;
static _Atomic bool dead; /* forked child writes, callbacks read; relaxed */

static uint64_t id_of(void *node)
{
    uint64_t id = 0;
    if (!node || api->get_graph_node_id(node, &id) != CUPTI_OK)
        return 0;
    return id;
}

/* Tells once, because CUPTI does not report what it leaves out. */
static void warn_conditional(void)
{
    if (!once_here())
        return;
    log_warn(
        "a CUDA graph has conditional nodes; CUPTI records only the first iteration of a loop");
    writer_note("a CUDA graph has conditional nodes: kernels of later iterations are missing");
}

/* Instantiation reports each node twice: as created, then as cloned from the captured node. */
static void node_made(const struct cupti_graph_data *g, bool cloned)
{
    uint64_t node = id_of(g->node);
    struct thread_log *log = node ? thread_log_get() : NULL;
    if (g->node_type == CUPTI_NODE_CONDITIONAL)
        warn_conditional();
    if (log)
        emit_graph_node(log, node, cloned ? id_of(g->original_node) : 0,
                        g->node_type == CUPTI_NODE_KERNEL);
}

static void called(void *arg, int domain, uint32_t cbid, const void *data)
{
    (void)arg;
    if (atomic_load_explicit(&dead, memory_order_relaxed) || !data)
        return;
    if (domain == CUPTI_RESOURCE &&
        (cbid == CUPTI_INIT_FINISHED || cbid == CUPTI_CONTEXT_CREATED)) {
        if (on.ready)
            on.ready();
    } else if (domain == CUPTI_RESOURCE &&
               (cbid == CUPTI_NODE_CREATED || cbid == CUPTI_NODE_CLONED)) {
        const struct cupti_resource *r = data;
        if (r->graph)
            node_made(r->graph, cbid == CUPTI_NODE_CLONED);
    } else if (domain == CUPTI_STATE && cbid == CUPTI_FATAL_ERROR) {
        const struct cupti_state *s = data;
        on.ended(s->message ? s->message : bind_error(api, s->result));
    }
}

int callback_subscribe(const struct cupti *c, void **subscriber, const struct callback_to *to)
{
    api = c;
    on = *to;
    int result = c->subscribe(subscriber, called, NULL);
    if (result != CUPTI_OK)
        return result;
    c->enable_callback(1, *subscriber, CUPTI_RESOURCE, CUPTI_INIT_FINISHED);
    c->enable_callback(1, *subscriber, CUPTI_RESOURCE, CUPTI_CONTEXT_CREATED);
    if (c->get_graph_node_id) {
        c->enable_callback(1, *subscriber, CUPTI_RESOURCE, CUPTI_NODE_CREATED);
        c->enable_callback(1, *subscriber, CUPTI_RESOURCE, CUPTI_NODE_CLONED);
    }
    if (c->version >= STATE_SINCE)
        c->enable_callback(1, *subscriber, CUPTI_STATE, CUPTI_FATAL_ERROR);
    return CUPTI_OK;
}

void callback_abandon(void)
{
    atomic_store(&dead, true);
}
