/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the real functions behind cprof's exports. Any application thread; no state, no lock.
 * Lookups take the loader's lock and may allocate: look up once, keep the pointer, hold no lock.
 * errno and dlerror() stay clean. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library of a real function. */
struct resolve_library {
    const char *version;    /* version node of its symbols, or NULL */
    const char *sonames[3]; /* tried in this order among loaded objects; NULL ends the list */
    const char *prefix;     /* of its file name, for renamed copies */
};

/* The definition of `symbol` that a caller would get without cprof, or NULL. Searches the global
 * scope after this library. Then the scope of the object around `caller` (only without version
 * nodes; NULL skips it). Then loaded objects by soname, then by file name prefix. Loads nothing,
 * never returns a function of this library, and pins the object it found, though not the
 * caller's. */
void *resolve_next(const char *symbol, const struct resolve_library *library, const void *caller);

/* resolve_next() for results that are dropped once resolve_still_open() returns false. What only
 * the caller's scope has is not pinned, so it can be unloaded. */
void *resolve_for_caller(const char *symbol, const struct resolve_library *library,
                         const void *caller);

/* The next function of this name after this library's wrapper, in the C library or another
 * preloaded one; NULL: none. Not pinned. Any thread. */
void *resolve_behind(const char *symbol);

/* The first definition of this name in the global scope, or NULL. For a variable that may be the
 * program's copy (copy relocation), which the library uses too. Not pinned. Keeps errno and
 * dlerror() clean. */
void *resolve_first(const char *symbol);

/* Changes when a dlclose() of the program begins and when it ends. After its end, lookups in a
 * caller's scope are outdated, since another object may be at the same address. Any thread
 * reads. */
extern _Atomic uint64_t resolve_closings __attribute__((visibility("hidden")));

/* True while a dlclose() is in progress: do not store what is found now. */
static inline bool resolve_is_closing(uint64_t closings)
{
    return (uint32_t)closings != 0;
}

/* True when no dlclose() ended between these two values; none was in progress at `then`. */
static inline bool resolve_still_open(uint64_t then, uint64_t now)
{
    return then >> 32 == now >> 32;
}

/* Sets a callback for the closing thread, before and after each dlclose(). Once, at wake-up. */
void resolve_on_closing(void (*call)(void));

/* Changes whenever an object is loaded. Until then, a failed lookup need not be repeated. */
uint64_t resolve_generation(void);

/* The path of the first loaded object whose file name begins with `prefix` ("libc10.so"). Returns
 * false if there is none or it does not fit. */
bool resolve_object(const char *prefix, char *path, size_t size);

/* The path of the first loaded object whose path contains `text` ("/torch/_C."). Returns false as
 * above. */
bool resolve_path_containing(const char *text, char *path, size_t size);

/* `symbol` from a loaded object whose file name begins with `prefix`, or from its dependencies;
 * pinned. NULL: none. */
void *resolve_in(const char *prefix, const char *symbol);

/* True when `address` is in this library (in unit tests, in the program). */
bool resolve_is_own(const void *address);
