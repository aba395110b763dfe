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

/* The entry of torch's process group; NULL: no place. A new group is passed to
 * identity_communicator(). */
struct communicator *communicator_of_group(const void *handle, int size, int rank);

/* Its size and the rank of this process. False: they are unknown. */
bool communicator_known(const struct communicator *c, int *size, int *rank);

/* Its handle, and its number, from 1: for thread-local state, which has little room. NULL: none has
 * the number 0. */
const void *communicator_handle(const struct communicator *c);
unsigned communicator_index(const struct communicator *c);
struct communicator *communicator_at(uint64_t index);

#define COMMUNICATOR_NAME 40u /* bytes of a name, with the terminator; a longer one is cut */

/* The name by which all ranks know it; "": it has none. */
const char *communicator_name(const struct communicator *c);

/* Its name is this one. With another name than before it is another group, whose numbers begin
 * anew. */
void communicator_is_called(struct communicator *c, const char *name, size_t len);
