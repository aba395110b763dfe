/* SPDX-License-Identifier: Apache-2.0 */
/* c10d's description of a transfer during its call of NCCL (torch::ParamCommsDebugInfo,
 * thread-local). torch.profiler takes the args of record_param_comms from it. There is none for
 * gloo. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct torch_text {
    const char *at; /* no NUL at the end */
    size_t len;     /* in bytes */
};

struct torch_numbers {
    const int64_t *at;
    size_t count;
};

/* Owned by torch; valid while the operator record_param_comms is open. */
struct torch_comms {
    struct torch_text name;         /* the collective in c10d's words ("_allgather_base") */
    struct torch_text group, about; /* name and description of the process group, or empty */
    const char *dtype;              /* torch's name ("Float"); NULL: unknown; static */
    int64_t in, out;                /* in elements */
    int32_t rank, size;             /* in the group; for a send or recv, rank is the peer's */
    int32_t start, stride;          /* world ranks of the group; -1 and 0: unknown */
    struct torch_numbers ranks;     /* world ranks of the group as a list; or empty */
    struct torch_numbers in_split, out_split; /* elements to and from each rank; or empty */
    int64_t seq;                              /* -1: not in this version */
    int8_t async;                             /* 1 or 0; -1: not in this version */
};

/* Whether c10d's description can be read during an operator of this name. */
static inline bool torch_is_comms(const char *name)
{
    return strcmp(name, "record_param_comms") == 0;
}

/* Reads the description of the calling thread's transfer. False: there is none, or this torch's
 * layout is unknown. Application threads, inside torch; no lock, no allocation. */
bool torch_comms_read(struct torch_comms *out);
