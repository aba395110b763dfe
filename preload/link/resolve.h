/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the real functions behind our exports. Any application thread; no state, so no lock of
 * ours. All of it takes the loader's lock and may allocate: look up once, keep the pointer, and
 * hold no lock while calling. errno and dlerror() state are left clean.
 */
#ifndef PRELOAD_LINK_RESOLVE_H
#define PRELOAD_LINK_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which library a real function belongs to. */
struct resolve_library {
    const char *version;    /* version node that its symbols carry, or NULL for none */
    const char *sonames[3]; /* tried in this order among what is loaded; NULL ends the list */
    const char *prefix;     /* how its file name begins, for copies that were renamed */
};

/*
 * The definition of `symbol` that a caller would have got without us, or NULL. Tried in this order:
 * the global scope after this library; the scope of the object that holds the address `caller` (for
 * libraries without version nodes; NULL skips it); the loaded objects with one of the sonames; the
 * loaded objects whose file name begins with the prefix. Never loads anything, never returns a
 * function of this library, and pins the object it found for the life of the process; the
 * object around `caller` is not pinned.
 */
void *resolve_next(const char *symbol, const struct resolve_library *library, const void *caller);

/* The same for who forgets the answer when resolve_still_open() says no: what stands only in the
 * scope of the object around `caller` is not pinned, so that it is unloaded as it is without us. */
void *resolve_for_caller(const char *symbol, const struct resolve_library *library,
                         const void *caller);

/* The function of the C library, or of a library that stands between, which this library's own
 * wrapper of that name forwards to; NULL: none. Not pinned. Any thread. */
void *resolve_behind(const char *symbol);

/* What comes first in the global scope under this name, or NULL. Of a variable that is the
 * program's own copy where it was linked so (a copy relocation), which the library then uses, too.
 * Not pinned. Keeps errno, and leaves dlerror() clean. */
void *resolve_first(const char *symbol);

/* A number that changes when the program begins and ends to close an object: once it has ended,
 * what was found in the scope of a caller is good no more, since another object may lie there now.
 * Any thread reads. */
extern _Atomic uint64_t resolve_closings __attribute__((visibility("hidden")));

/* True for a number at which a dlclose() is under way: nothing that is found meanwhile may be
 * kept. */
static inline bool resolve_is_closing(uint64_t closings)
{
    return (uint32_t)closings != 0;
}

/* True when no dlclose() was over between these two numbers, `then` one at which none was under
 * way. */
static inline bool resolve_still_open(uint64_t then, uint64_t now)
{
    return then >> 32 == now >> 32;
}

/* `call` is called before and after the program closes an object, on the thread that does. Once, at
 * wake-up. */
void resolve_on_closing(void (*call)(void));

/* A number that changes whenever an object is loaded: a lookup that failed need not be repeated
 * before it does. */
uint64_t resolve_generation(void);

/* Path of the loaded object whose file name begins with `prefix` ("libc10.so"); false: none, or the
 * path does not fit. */
bool resolve_object(const char *prefix, char *path, size_t size);

/* Path of the first loaded object whose path contains `text` ("/torch/_C."); false as above. */
bool resolve_path_containing(const char *text, char *path, size_t size);

/* `symbol` as defined by a loaded object whose file name begins with `prefix`, or by what that
 * object depends on; pinned. NULL: none. */
void *resolve_in(const char *prefix, const char *symbol);

/* True when `address` lies in this library (or, in unit tests, in the same program). */
bool resolve_is_own(const void *address);

#endif
