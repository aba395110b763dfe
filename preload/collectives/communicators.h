/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of NCCL and MPI, and torch's process groups: their size, the rank of this process,
 * and how many transfers they have had. Any thread; no lock. */
#pragma once

#include "preload/collectives/collectives.h"

struct communicator;

/* The entry of a communicator, made at the first call. NULL: no handle, or no place. */
struct communicator *communicator_of(const void *handle);

/* Number of the next transfer. Ranks that record different steps agree, because each is counted. */
uint64_t communicator_number(struct communicator *c, enum collective_peer peer_is);

/* Frees the communicator's place, because a new communicator may get its address. */
void communicator_forget(const void *handle);

/* Reads size and rank of a communicator, or 0 and -1. MPI is asked each time, because a handle may
 * be freed unseen. */
void communicator_size_and_rank(struct communicator *c, enum collective_family family,
                                const void *handle, const void *caller, int *size, int *rank);

/* Returns the number of earlier transfers in torch's process group: of collectives or, with PEER_TO
 * or PEER_FROM, of sends and receives, as torch counts NCCL's. 0 if the group has no place in the
 * table. A new group is passed to identity_communicator(). */
uint64_t collective_of_group(const void *handle, int size, int rank, enum collective_peer peer_is);
