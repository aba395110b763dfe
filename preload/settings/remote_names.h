/* SPDX-License-Identifier: Apache-2.0 */
/* The names that traces were uploaded as: no remote copy is replaced by this run. A trace costs the
 * same however many there were. */
#ifndef PRELOAD_SETTINGS_REMOTE_NAMES_H
#define PRELOAD_SETTINGS_REMOTE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A name that was given out, with the last number that was tried behind it. */
struct remote_name {
    uint64_t hash; /* 0: no name */
    unsigned last;
};

/* Begins as all zeroes. Names are kept as their hashes. */
struct remote_names {
    struct remote_name *slots; /* a power of two of them, at most 3/4 used; owned */
    size_t room, used;
};

/* Writes the name that has this number, 1 for the plain one. False: there is none. */
typedef bool (*remote_name_maker)(void *arg, unsigned number, char *name, unsigned long size);

/* The first of the maker's names that was not given out, in `name`; it is then. False: the maker
 * has none, or there is no memory. One thread. */
bool remote_names_take(struct remote_names *names, remote_name_maker make, void *arg, char *name,
                       unsigned long size);

#endif
