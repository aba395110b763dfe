/* SPDX-License-Identifier: Apache-2.0 */
/* Records calls of communication libraries (NCCL, MPI) and torch's gloo ranges as spans. Their args
 * describe the transfer: collective, elements, bytes, type, group size, rank, peer and sequence
 * number, with the keys of Kineto's record_param_comms. Application threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

/* ncclUniqueId, passed by value. */
struct nccl_id {
    char bytes[128];
};

/* Elements of a side: none, `count`, or `count` for each rank. */
enum collective_share { SHARE_NOTHING, SHARE_ONE, SHARE_ALL };

enum collective_peer { PEER_NONE, PEER_ROOT, PEER_TO, PEER_FROM };

enum collective_role {
    ROLE_TRANSFER,
    ROLE_GROUP_START, /* the outermost group's end launches the following calls */
    ROLE_GROUP_END,
    /* ends a group without a transfer */
    ROLE_GROUP_ESTIMATED,
    ROLE_INIT,     /* makes a communicator of `size` ranks; this process is `rank` */
    ROLE_SPLIT,    /* makes a communicator from another */
    ROLE_FINALIZE, /* waits for the transfers of a communicator */
    ROLE_DESTROY,  /* frees a communicator, whose address another may get */
    ROLE_WAIT,     /* waits for immediate transfers */
    ROLE_QUERY,    /* asks for errors of a communicator, again and again: not recorded */
};

enum collective_family { FAMILY_NCCL, FAMILY_MPI, FAMILY_COUNT };

/* A call, filled from its arguments by a row of collectives.def. Fields that a row omits are 0. */
struct collective {
    const char *name;                  /* Kineto's name; static */
    uint64_t count;                    /* in elements */
    int dtype;                         /* ncclDataType_t */
    const void *type;                  /* MPI_Datatype: a pointer or, in the low half, an int */
    const void *comm;                  /* communicator, as type */
    const void *comm_at;               /* MPI's ROLE_DESTROY: address of the handle; or NULL */
    const int *counts_in, *counts_out; /* instead of count: one per rank; or NULL */
    const int *error;                  /* of ROLE_QUERY: where the answer is written */
    int peer;
    int size, rank;  /* of ROLE_INIT */
    uint8_t peer_is; /* enum collective_peer */
    uint8_t in, out; /* enum collective_share */
    uint8_t role;    /* enum collective_role */
    bool immediate;  /* returns before the transfer ends */
};

enum collective_id {
#define COLLECTIVE(family, symbol, ...) COLLECTIVE_##symbol,
#include "preload/collectives/collectives.def"
    COLLECTIVE_COUNT
};

/* A call in progress, on the wrapper's stack. */
struct collective_call {
    void *real;             /* the real function; NULL: not found */
    struct thread_log *log; /* log with the call's open span, or NULL */
    /* The enclosing transfer of this thread, or NULL. Compared only: longjmp may have removed
     * it. */
    const struct collective_call *outer;
    bool part; /* a library's call inside its own transfer */
};

/* Before the real call: finds it, wakes cprof, and opens the span if spans are recorded. caller:
 * the wrapper's return address. Cuts int handles in `what`. Keeps errno. */
void collective_begin(struct collective_call *call, enum collective_id id, struct collective *what,
                      const void *caller);

/* After the real call, on the same thread. result: what it returned. Keeps errno. */
void collective_end(struct collective_call *call, enum collective_id id,
                    const struct collective *what, int result);

/* The room's other headers. */
#include "preload/collectives/torch_comms.h"
#include "preload/collectives/torch_groups.h"
#include "preload/collectives/torch_transfers.h"
