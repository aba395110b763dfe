/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of communication libraries (NCCL, MPI) and torch's gloo ranges as spans that say what was
 * sent: the collective, its elements, bytes and type, the communicator's size, this rank in it, the
 * peer and the sequence number, under the names that Kineto gives the args of its
 * record_param_comms. Application threads.
 */
#ifndef PRELOAD_COLLECTIVES_COLLECTIVES_H
#define PRELOAD_COLLECTIVES_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/writer.h"

/* ncclUniqueId, passed by value. */
struct nccl_id {
    char bytes[128];
};

/* How many times `count` elements a side holds. */
enum collective_share { SHARE_NOTHING, SHARE_ONE, SHARE_ALL /* count for each rank */ };

enum collective_peer { PEER_NONE, PEER_ROOT, PEER_TO, PEER_FROM };

enum collective_role {
    ROLE_TRANSFER,
    ROLE_GROUP_START, /* what follows is launched by the outermost group's end */
    ROLE_GROUP_END,
    /* ends one, too, and sends nothing */
    ROLE_GROUP_ESTIMATED,
    ROLE_INIT,     /* makes a communicator of `size` ranks, of which this is `rank` */
    ROLE_SPLIT,    /* makes one out of another */
    ROLE_FINALIZE, /* waits for what is going on in one */
    ROLE_DESTROY,  /* its address may be another's from here on */
    ROLE_WAIT,     /* for immediate transfers */
};

enum collective_family { FAMILY_NCCL, FAMILY_MPI, FAMILY_COUNT };

/* One call, filled from its arguments by a row of collectives.def; what a row leaves out is 0. */
struct collective {
    const char *name;                  /* as Kineto has it; static */
    uint64_t count;                    /* elements */
    int dtype;                         /* ncclDataType_t */
    const void *type;                  /* MPI_Datatype: a pointer or, in the low half, an int */
    const void *comm;                  /* communicator: the same */
    const void *comm_at;               /* of MPI's ROLE_DESTROY: where it stands; or NULL */
    const int *counts_in, *counts_out; /* instead of count: one for each rank; or NULL */
    int peer;
    int size, rank;  /* of ROLE_INIT */
    uint8_t peer_is; /* enum collective_peer */
    uint8_t in, out; /* enum collective_share */
    uint8_t role;    /* enum collective_role */
    bool immediate;  /* returns before the transfer is over */
};

enum collective_id {
#define COLLECTIVE(family, symbol, ...) COLLECTIVE_##symbol,
#include "preload/collectives/collectives.def"
    COLLECTIVE_COUNT
};

/* One call in progress; lives on the wrapper's stack. */
struct collective_call {
    void *real;             /* the real function, NULL when there is none */
    struct thread_log *log; /* where the call's span is open, or NULL */
    /* The transfer that the thread was in, or NULL; only compared: it may be gone (longjmp). */
    const struct collective_call *outer;
    bool part; /* a library makes it inside a transfer of its own */
};

/* Before the real call: finds it, wakes cprof, opens the span when spans are recorded. `caller` is
 * the wrapper's return address. Cuts the handles in `what` that are an int. Keeps errno. */
void collective_begin(struct collective_call *call, enum collective_id id, struct collective *what,
                      const void *caller);

/* After it, on the same thread. Keeps errno as the real call left it. */
void collective_end(struct collective_call *call, const struct collective *what);

/* True for the name of torch's range around a transfer of gloo, MPI or UCC. */
bool collective_is_range(const char *name);

/* Bytes of shapes that collective_of_shapes() reads, and of all that it writes, at most. */
#define COLLECTIVE_SHAPES 1024u
#define COLLECTIVE_ARGS   (1536u + COLLECTIVE_SHAPES)

/* How many transfers were asked for in torch's process group before this one, of collectives or, of
 * one with PEER_TO or PEER_FROM, of those between two ranks, as torch counts NCCL's; of one that
 * finds no room 0. Tells the identity of a group that is seen for the first time
 * (identity_communicator()). */
uint64_t collective_of_group(const void *handle, int size, int rank, enum collective_peer peer_is);

struct torch_group;
struct torch_comms;

/* What torch's range around a transfer of gloo, MPI or UCC ("gloo:all_reduce") says, out of the
 * shapes of its tensors (DATA_SHAPES, n bytes; at most COLLECTIVE_SHAPES), which stand among it,
 * and its group (NULL: not known), as DATA_ARGS into `out` (COLLECTIVE_ARGS bytes). Returns their
 * number. collective_is_range(name). */
uint32_t collective_of_shapes(const char *name, const uint8_t *shapes, uint32_t n,
                              const struct torch_group *of, uint8_t *out);

/* What torch's record_param_comms says, as Kineto writes it, but for `Comms Id`, which there is a
 * hash of the rest: as DATA_ARGS into `out` (COLLECTIVE_ARGS bytes). shapes: DATA_SHAPES of its
 * inputs, n bytes, 0 unless they are wanted. Returns the number of bytes. */
uint32_t collective_of_comms(const struct torch_comms *comms, const uint8_t *shapes, uint32_t n,
                             uint8_t *out);

/* What else the room offers. */
#include "preload/collectives/torch_comms.h"
#include "preload/collectives/torch_groups.h"

#endif
