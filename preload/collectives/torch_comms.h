/* SPDX-License-Identifier: Apache-2.0 */
/* What c10d says of a transfer while it asks NCCL for it (torch::ParamCommsDebugInfo, kept by the
 * thread): where torch.profiler has the args of record_param_comms from. Of gloo it says
 * nothing. */
#ifndef PRELOAD_COLLECTIVES_TORCH_COMMS_H
#define PRELOAD_COLLECTIVES_TORCH_COMMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct torch_text {
    const char *at; /* not terminated */
    size_t len;     /* bytes */
};

struct torch_numbers {
    const int64_t *at;
    size_t count;
};

/* All of it is torch's, and lives as long as the operator record_param_comms is open. */
struct torch_comms {
    struct torch_text name;         /* of the collective, as c10d has it ("_allgather_base") */
    struct torch_text group, about; /* the process group's name and description, or empty */
    const char *dtype;              /* as torch spells it ("Float"); NULL: not known; static */
    int64_t in, out;                /* elements */
    int32_t rank, size;             /* in the group; of a send or recv the peer's */
    int32_t start, stride;          /* ranks of the group in the world; -1 and 0: not known */
    struct torch_numbers ranks;     /* the same, one by one; or empty */
    struct torch_numbers in_split, out_split; /* elements to and from each rank; or empty */
    int64_t seq;                              /* -1: this torch does not tell */
    int8_t async;                             /* 1, 0; -1: the same */
};

/* Whether the operator is the one in which c10d says it. */
static inline bool torch_is_comms(const char *name)
{
    return strcmp(name, "record_param_comms") == 0;
}

/* Of the transfer that the calling thread is in. False: in none, or this torch's layout is not
 * known. Application threads, inside torch; no lock, no allocation. */
bool torch_comms_read(struct torch_comms *out);

#endif
