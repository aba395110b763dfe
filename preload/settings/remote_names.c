/* SPDX-License-Identifier: Apache-2.0 */
/* The remote names of this run's traces. */
#include "preload/settings/remote_names.h"

#include <stdlib.h>
#include <string.h>

#include "writer/writer.h"

/* The slot of the hash, or a free one. There is a free slot. */
static struct remote_name *hash_place(const struct remote_name *slots, size_t room, uint64_t hash)
{
    size_t at = hash & (room - 1);
    while (slots[at].hash != 0 && slots[at].hash != hash)
        at = (at + 1) & (room - 1);
    return (struct remote_name *)&slots[at];
}

static bool make_names_room(struct remote_names *names)
{
    if (names->used < names->room / 4 * 3)
        return true;
    size_t room = names->room ? 2 * names->room : 64;
    struct remote_name *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i].hash != 0)
            *hash_place(slots, room, names->slots[i].hash) = names->slots[i];
    free(names->slots);
    names->slots = slots;
    names->room = room;
    return true;
}

static uint64_t hash_of_remote(const char *name)
{
    uint64_t hash = hash_text(name, strlen(name));
    return hash ? hash : 1;
}

/* Returns false when the name was used before. */
static bool add_hash(struct remote_names *names, uint64_t hash)
{
    struct remote_name *slot = hash_place(names->slots, names->room, hash);
    if (slot->hash != 0)
        return false;
    *slot = (struct remote_name){hash, 1};
    names->used++;
    return true;
}

bool remote_names_take(struct remote_names *names, remote_name_maker make, void *arg, char *name,
                       unsigned long size)
{
    if (!make_names_room(names) || !make(arg, 1, name, size))
        return false;
    uint64_t plain = hash_of_remote(name);
    if (add_hash(names, plain))
        return true;
    unsigned *last = &hash_place(names->slots, names->room, plain)->last;
    do /* a numbered name may be another trace's plain name */
        if (!make(arg, ++*last, name, size))
            return false;
    while (!add_hash(names, hash_of_remote(name)));
    return true;
}
