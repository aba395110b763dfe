/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of loaded objects' global offset tables, through which they call other objects. All but
 * the last part runs inside loader_walk(), where no object can be unloaded. */
#pragma once

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A loaded object. `base` and `dynamic` together identify it, since addresses are reused. */
struct got_object {
    ElfW(Addr) base;
    const ElfW(Dyn) * dynamic;
    uintptr_t relro, relro_end; /* whole pages that are read-only after relocation */
};

/* Returns false for an object without a dynamic section. */
bool got_describe(const struct dl_phdr_info *info, struct got_object *o);

/* Calls entry() for each function entry of the object, with its symbol's name. */
void got_entries(const struct got_object *o,
                 void (*entry)(const struct got_object *o, const char *name, void *_Atomic *slot,
                               void *arg),
                 void *arg);

enum got_written {
    GOT_WRITTEN,
    /* the loader may still be relocating the object (always assumed without /proc), or has just
     * bound the entry */
    GOT_LATER,
    GOT_REFUSED /* the page cannot be made writable */
};

/* Replaces `found` by `to` in an entry. A read-only page is made writable for that. */
enum got_written got_write(const struct got_object *o, void *_Atomic *slot, void *found, void *to);

/* ---- outside loader_walk(), for an object that stays loaded ---- */

/* A function that an object calls. */
struct got_call {
    const char *name;
    /* NULL: the object does not call it through an entry, or the entry is in a RELRO page */
    void *_Atomic *slot;
};

/* Finds the entries of `n` functions in the first loaded object whose file name begins with
 * `prefix`. Walks the loader's list. */
void got_find_calls(const char *prefix, struct got_call *calls, unsigned n);

/* Replaces `found` by `to` in one atomic write. Returns false, and changes nothing, if another
 * value is there or the page is not writable. Keeps errno. Any thread. */
bool got_swap(void *_Atomic *slot, void *found, void *to);
