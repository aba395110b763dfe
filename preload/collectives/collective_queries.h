/* SPDX-License-Identifier: Apache-2.0 */
/* Queries to the communication library of a call. caller: the wrapper's return address, which tells
 * whose library it is. */
#pragma once

#include "preload/collectives/collectives.h"
#include "preload/link/link.h"

extern const struct resolve_library collective_libraries[FAMILY_COUNT];

enum question { NCCL_COUNT, NCCL_RANK, MPI_SIZE, MPI_RANK, MPI_INTER, MPI_TYPE, QUESTIONS };

/* Calls `int f(handle, int *)` of the caller's library. Returns -1 if it fails or is missing. */
int collective_ask(enum question which, const void *handle, const void *caller);

/* Reads the communicator at what->comm_at, and cuts handles that are ints. */
void mpi_read_handles(struct collective *what, const void *caller);

/* Size of an element in bytes; 0: unknown. *name: torch's name of the type, or NULL. */
uint64_t collective_element_size(enum collective_family family, const struct collective *what,
                                 const void *caller, const char **name);
