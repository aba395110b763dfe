/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the process group of torch's range around a transfer ("gloo:all_reduce"). The range has
 * only the tensors. The operator that requested it ("c10d::allreduce_") has the group as well, and
 * ran earlier on the calling thread. So the operator stores its group by the sent tensor, and the
 * range takes it. Any thread, in torch's start callbacks; no lock, no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct torch_group {
    const void *group; /* an identity, never dereferenced */
    int32_t size, rank;
    int32_t peer;    /* rank in the group; -1: none */
    uint8_t peer_is; /* enum collective_peer */
    uint64_t seq;    /* from collective_of_group() */
};

/* Whether an operator of this name may have a group. */
static inline bool torch_is_transfer(const char *name)
{
    return name[0] == 'c' && name[1] == '1' && name[2] == '0' && name[3] == 'd' && name[4] == ':';
}

/* Stores the group of a transfer's operator. function: its at::RecordFunction.
 * torch_is_transfer(name) must hold. */
void torch_groups_note(const void *function, const char *name);

/* Takes the group of a range, once. Returns false if none was stored for its tensors, it is
 * ambiguous, or the version's objects are unknown. */
bool torch_groups_take(const void *function, const char *name, struct torch_group *out);
