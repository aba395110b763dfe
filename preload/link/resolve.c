/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the real functions behind cprof's exports. Application threads. */
#include "preload/link/resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "writer/writer.h"

#define PATH_SIZE 4096

enum match { MATCH_PREFIX, MATCH_CONTAINS };

struct search {
    const char *text;
    enum match match;
    unsigned skip; /* matching objects still to skip */
    char *path;
    size_t size;
    bool found;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* For loader_walk(): runs under the loader's lock, so it only copies the path. */
static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const char *path = info->dlpi_name;
    (void)size;
    if (!path || !*path)
        return 0;
    bool hit = search->match == MATCH_PREFIX
                   ? strncmp(base_name(path), search->text, strlen(search->text)) == 0
                   : strstr(path, search->text) != NULL;
    if (!hit)
        return 0;
    if (search->skip > 0) {
        search->skip--;
        return 0;
    }
    size_t length = strlen(path);
    if (length < search->size) {
        memcpy(search->path, path, length + 1);
        search->found = true;
    }
    return 1;
}

/* The path of the `nth` matching object (from 0). Returns false when there are fewer. */
static bool find_object(const char *text, enum match match, unsigned nth, char *path, size_t size)
{
    struct search search = {.text = text, .match = match, .skip = nth, .path = path, .size = size};
    loader_walk(look_at_object, &search);
    return search.found;
}

/* A handle of a loaded object, which also pins it; NULL if it is not loaded. */
static void *loaded(const char *name)
{
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
}

/* First and last address of this library; the linker defines them. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool resolve_is_own(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    return at >= (uintptr_t)__ehdr_start && at < (uintptr_t)_end;
}

/* Returns `address` with its object pinned; NULL if it is NULL or in this library. */
static void *accept(void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!address || resolve_is_own(address))
        return NULL;
    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name[0])
        loaded(map->l_name);
    return address;
}

/* Looks the symbol up in the scope of `handle`, in this version if one is given. */
static void *look_up(void *handle, const char *symbol, const char *version)
{
    return accept(version ? loader_symbol_of(handle, symbol, version)
                          : loader_symbol(handle, symbol));
}

void *resolve_behind(const char *symbol)
{
    void *real = loader_symbol(RTLD_NEXT, symbol);
    return resolve_is_own(real) ? NULL : real;
}

/* ---- objects that are closed ---- */

/* Lower 32 bits: calls of dlclose() in progress. Upper 32 bits: calls that have ended. Any thread
 * adds. */
_Atomic uint64_t resolve_closings;

typedef int close_function(void *handle);

/* The next dlclose(): the C library's or another preloaded library's. */
static close_function *next_close(void)
{
    static _Atomic(close_function *) found;
    close_function *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (!next) {
        *(void **)&next = resolve_behind("dlclose");
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    return next;
}

static void (*_Atomic on_closing)(void);

void resolve_on_closing(void (*call)(void))
{
    atomic_store(&on_closing, call);
}

static void tell_closing(void)
{
    void (*call)(void) = atomic_load(&on_closing);
    if (call)
        call();
}

__asm__(".symver resolve_dlclose, dlclose@@"); /* unversioned; exports.map explains why */
__attribute__((visibility("default"))) int resolve_dlclose(void *handle);
__attribute__((visibility("default"))) int resolve_dlclose(void *handle)
{
    close_function *next = next_close();
    if (!next)
        return -1;
    tell_closing(); /* while the object's name is still known */
    atomic_fetch_add(&resolve_closings, 1);
    int result = next(handle);
    tell_closing(); /* before the close counts as ended, see unwind_frames() */
    atomic_fetch_add(&resolve_closings, UINT32_MAX);
    return result;
}

/* ---- lookup ---- */

/* Looks the symbol up in the scope of the object around `caller`. That object is not pinned, so a
 * plugin can be closed and its new version opened. */
static void *in_scope_of(const void *caller, const char *symbol, bool pin)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_name[0])
        return NULL; /* the program itself, whose scope is the global one, searched before */
    void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    void *real = loader_symbol(handle, symbol);
    real = pin ? accept(real) : resolve_is_own(real) ? NULL : real;
    close_function *close = next_close();
    if (close) /* unloads nothing: the code at `caller` is running */
        close(handle);
    return real;
}

static void *in_named(const struct resolve_library *library, const char *symbol)
{
    for (size_t i = 0; i < sizeof library->sonames / sizeof library->sonames[0]; i++) {
        void *handle = library->sonames[i] ? loaded(library->sonames[i]) : NULL;
        if (!handle)
            continue;
        void *real = look_up(handle, symbol, library->version);
        if (!real && library->version) /* a replacement library without version nodes */
            real = look_up(handle, symbol, NULL);
        if (real)
            return real;
    }
    return NULL;
}

static void *in_prefixed(const char *prefix, const char *symbol, const char *version)
{
    char path[PATH_SIZE];
    for (unsigned nth = 0; find_object(prefix, MATCH_PREFIX, nth, path, sizeof path); nth++) {
        void *handle = loaded(path);
        void *real = handle ? look_up(handle, symbol, version) : NULL;
        if (real)
            return real;
    }
    return NULL;
}

static void *find_symbol(const char *symbol, const struct resolve_library *library,
                         const void *caller, bool pin)
{
    int saved = errno;
    void *real = look_up(RTLD_NEXT, symbol, library->version);
    if (!real && caller && !library->version)
        real = in_scope_of(caller, symbol, pin);
    if (!real)
        real = in_named(library, symbol);
    if (!real && library->prefix)
        real = in_prefixed(library->prefix, symbol, library->version);
    dlerror(); /* the program must not see our failures */
    errno = saved;
    return real;
}

void *resolve_first(const char *symbol)
{
    int saved = errno;
    void *object = loader_symbol(RTLD_DEFAULT, symbol);
    dlerror();
    errno = saved;
    return object;
}

void *resolve_next(const char *symbol, const struct resolve_library *library, const void *caller)
{
    return find_symbol(symbol, library, caller, true);
}

void *resolve_for_caller(const char *symbol, const struct resolve_library *library,
                         const void *caller)
{
    return find_symbol(symbol, library, caller, false);
}

static int note_generation(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(uint64_t *)data = info->dlpi_adds;
    return 1;
}

uint64_t resolve_generation(void)
{
    uint64_t adds = 0;
    loader_walk(note_generation, &adds);
    return adds;
}

bool resolve_object(const char *prefix, char *path, size_t size)
{
    return find_object(prefix, MATCH_PREFIX, 0, path, size);
}

bool resolve_path_containing(const char *text, char *path, size_t size)
{
    return find_object(text, MATCH_CONTAINS, 0, path, size);
}

void *resolve_in(const char *prefix, const char *symbol)
{
    int saved = errno;
    void *real = in_prefixed(prefix, symbol, NULL);
    dlerror();
    errno = saved;
    return real;
}
