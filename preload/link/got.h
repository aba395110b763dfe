/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the global offset tables of loaded objects, through which their calls to other objects
 * go. But for the last part, all of it under the loader's list (loader_walk()), where no object can
 * go away. */
#ifndef PRELOAD_LINK_GOT_H
#define PRELOAD_LINK_GOT_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the loader says about one object. Both numbers tell which: addresses of objects that went
 * are given again. */
struct got_object {
    ElfW(Addr) base;
    const ElfW(Dyn) * dynamic;
    uintptr_t relro, relro_end; /* whole pages that are read-only once the object is relocated */
};

/* False: it has no dynamic section. */
bool got_describe(const struct dl_phdr_info *info, struct got_object *o);

/* Calls entry() for each entry of the object, with the name it stands for. */
void got_entries(const struct got_object *o,
                 void (*entry)(const struct got_object *o, const char *name, void *_Atomic *slot,
                               void *arg),
                 void *arg);

enum got_written {
    GOT_WRITTEN,
    /* the loader may still be relocating the object (without /proc it always seems so), or has
     * bound the entry meanwhile */
    GOT_LATER,
    GOT_REFUSED /* the page cannot be made writable */
};

/* Puts `to` where `found` stands. A read-only page is writable for the moment of the write. */
enum got_written got_write(const struct got_object *o, void *_Atomic *slot, void *found, void *to);

/* ---- outside the loader's list, for an object that stays loaded ---- */

/* One function that an object calls. */
struct got_call {
    const char *name;
    /* NULL: the object does not call it through an entry, or the loader makes that entry
     * read-only */
    void *_Atomic *slot;
};

/* Fills in the slots of `n` calls of the first loaded object whose file name begins with `prefix`.
 * Walks the loader's list. */
void got_find_calls(const char *prefix, struct got_call *calls, unsigned n);

/* Puts `to` where `found` stands, in one atomic write. False, and nothing is changed: something
 * else stands there, or the page is not writable now. Keeps errno. Any thread. */
bool got_swap(void *_Atomic *slot, void *found, void *to);

#endif
