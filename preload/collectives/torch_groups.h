/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process group torch's range around a transfer ("gloo:all_reduce") belongs to. The range
 * only has its tensors; the operator that asked for the transfer ("c10d::allreduce_") has the group
 * too, and ran before it on the thread that called. So the operator's group is noted by the tensor
 * that is sent, and the range takes it. Any thread, in torch's start callbacks; no lock, no
 * allocation.
 */
#ifndef PRELOAD_COLLECTIVES_TORCH_GROUPS_H
#define PRELOAD_COLLECTIVES_TORCH_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

struct torch_group {
    const void *group; /* an identity, never followed */
    int32_t size, rank;
    int32_t peer;    /* in the group; -1 = none */
    uint8_t peer_is; /* enum collective_peer */
    uint64_t seq;    /* of collective_of_group() */
};

/* Whether the operator may have a group. */
static inline bool torch_is_transfer(const char *name)
{
    return name[0] == 'c' && name[1] == '1' && name[2] == '0' && name[3] == 'd' && name[4] == ':';
}

/* The operator asks for a transfer. function: its at::RecordFunction. torch_is_transfer(name). */
void torch_groups_note(const void *function, const char *name);

/* The range of this name that sends what was asked for; false: nothing was noted for its tensors,
 * or the version's objects are not known. Once. */
bool torch_groups_take(const void *function, const char *name, struct torch_group *out);

#endif
