/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each uploaded trace a name of its own, so that no upload replaces another of this run. The
 * cost does not grow with their number. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A used name, and the last number tried for it. */
struct remote_name {
    uint64_t hash; /* 0: no name */
    unsigned last;
};

/* Starts zeroed. Names are kept as hashes. */
struct remote_names {
    struct remote_name *slots; /* a power of two, at most 3/4 used; owned */
    size_t room, used;
};

/* Makes variant `number` of a name; 1 is the plain one. Returns false when there is none. */
typedef bool (*remote_name_maker)(void *arg, unsigned number, char *name, unsigned long size);

/* Puts the maker's first unused name into `name` and marks it used. Returns false when the maker
 * has none or memory is short. One thread. */
bool remote_names_take(struct remote_names *names, remote_name_maker make, void *arg, char *name,
                       unsigned long size);
