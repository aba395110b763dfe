/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and layouts from CUPTI's headers, except activity records. They are the same in CUDA 11.8
 * to 13.5. tests/unit/cupti/test_bind.c compares them with the real headers. */
#pragma once

/* CUptiResult */
#define CUPTI_OK                   0
#define CUPTI_MAX_LIMIT_REACHED    12
#define CUPTI_NOT_INITIALIZED      15
#define CUPTI_INSUFFICIENT         35
#define CUPTI_MULTIPLE_SUBSCRIBERS 39
#define CUPTI_NO_REASON            999 /* CUPTI_ERROR_UNKNOWN */

/* CUpti_CallbackDomain */
#define CUPTI_DRIVER   1
#define CUPTI_RUNTIME  2
#define CUPTI_RESOURCE 3
#define CUPTI_STATE    6

/* CUpti_CallbackIdResource, CUpti_CallbackIdState */
#define CUPTI_CONTEXT_CREATED 1
#define CUPTI_INIT_FINISHED   5
#define CUPTI_NODE_CREATED    13
#define CUPTI_NODE_CLONED     20
#define CUPTI_FATAL_ERROR     1

/* CUpti_ActivityThreadIdType */
#define CUPTI_THREAD_DEFAULT 0 /* pthread_self(), truncated */
#define CUPTI_THREAD_SYSTEM  1 /* gettid() */

/* CUpti_ActivityAttribute; each is a uint8_t */
#define CUPTI_ZEROED_BUFFERS     5
#define CUPTI_HOST_PINNED        8
#define CUPTI_PER_THREAD_BUFFERS 9

/* CUpti_ActivityFlag */
#define CUPTI_FLUSH_PLAIN  0
#define CUPTI_FLUSH_FORCED 1

/* CUpti_GraphData */
struct cupti_graph_data {
    void *graph, *original_graph, *node, *original_node;
    int node_type; /* enum cupti_node_type */
};

/* CUgraphNodeType */
enum cupti_node_type { CUPTI_NODE_KERNEL = 0, CUPTI_NODE_CONDITIONAL = 13 };

/* CUpti_ResourceData */
struct cupti_resource {
    void *context, *handle;
    const struct cupti_graph_data *graph;
};

/* CUpti_StateData */
struct cupti_state {
    int result;
    const char *message; /* or NULL */
};
