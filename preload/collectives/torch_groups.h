/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the process group of torch's range around a transfer ("gloo:all_reduce"). The range has
 * only the tensors. torch_backend.h knows whose backend is at work. The other side of a transfer
 * stands in the operator that requested it ("c10d::allreduce_") and ran earlier, on the calling
 * thread. Where operators are listened to, that one stores its group by the sent tensor, and the
 * range takes it. Any thread, in torch's start callbacks; no lock, no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct torch_group {
    const void *group; /* an identity, never dereferenced */
    int32_t size, rank;
    int32_t peer;    /* rank in the group; -1: none */
    uint8_t peer_is; /* enum collective_peer */
    bool numbered;   /* seq is set */
    uint64_t seq;    /* from communicator_number() */
};

/* Fills in size and rank of the group at out->group, which must be alive. False: its layout is
 * unknown, or it cannot be a group. */
bool torch_groups_read(struct torch_group *out);

/* Whether an operator of this name may have a group. */
static inline bool torch_is_transfer(const char *name)
{
    return name[0] == 'c' && name[1] == '1' && name[2] == '0' && name[3] == 'd' && name[4] == ':';
}

/* Stores the group of a transfer's operator. function: its at::RecordFunction.
 * torch_is_transfer(name) must hold. */
void torch_groups_note(const void *function, const char *name);

/* Finds the group and the number of a range; once for a range. False: it is unknown. */
bool torch_groups_take(const void *function, const char *name, struct torch_group *out);

/* Draws the next number in the group. */
void torch_groups_number(struct torch_group *group);

/* Keeps a group for the transfer at this address, and takes it, once. A newer one may replace an
 * older one. */
void torch_groups_put(const void *transfer, const struct torch_group *group);
bool torch_groups_get(const void *transfer, struct torch_group *out);
