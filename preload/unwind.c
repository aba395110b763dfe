/* SPDX-License-Identifier: Apache-2.0 */
/* See unwind.h. */
#define _GNU_SOURCE
#include "preload/unwind.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

#define OWN_FRAMES 12u /* of cprof itself, at the most */

/* Addresses of the code of one file. */
struct range {
    uintptr_t start, end;
};

/* Written once, before `ready`. */
static int (*backtrace)(void **out, int most);                          /* unw_backtrace */
static void (*flush_cache)(void *space, uintptr_t low, uintptr_t high); /* unw_flush_cache */
static void *const *local_space;                                        /* unw_local_addr_space */
static struct range own, interpreter;
static _Atomic bool ready;

struct search {
    uintptr_t wanted;
    struct range found;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct search *s = arg;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && s->wanted - start < p->p_memsz) {
            s->found = (struct range){start, start + p->p_memsz};
            return 1;
        }
    }
    return 0;
}

/* The code that the address is part of. */
static struct range code_around(const void *address)
{
    struct search s = {.wanted = (uintptr_t)address};
    if (address)
        dl_iterate_phdr(look_at, &s);
    return s.found;
}

static inline bool is_in(struct range r, const void *address)
{
    return (uintptr_t)address - r.start < r.end - r.start;
}

void unwind_start(void)
{
    static const char *const names[] = {"libunwind.so.8", "libunwind.so.1", "libunwind.so"};
    void *library = NULL;
    for (unsigned i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) {
        *(void **)&backtrace = dlsym(library, "unw_backtrace");
#if defined(__x86_64__)
        *(void **)&flush_cache = dlsym(library, "_Ux86_64_flush_cache");
        local_space = dlsym(library, "_ULx86_64_local_addr_space");
#elif defined(__aarch64__)
        *(void **)&flush_cache = dlsym(library, "_Uaarch64_flush_cache");
        local_space = dlsym(library, "_ULaarch64_local_addr_space");
#endif
    }
    if (!backtrace) {
        static const char note[] = "native stacks are not recorded: there is no libunwind.so.8 "
                                   "(Debian: libunwind8)";
        log_warn("%s; all else is", note);
        writer_note(note);
        return;
    }
    own = code_around((const void *)(uintptr_t)&unwind_start);
    interpreter = code_around(dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault"));
    stacks_resolve_with(symbols_name);
    atomic_store_explicit(&ready, true, memory_order_release);
}

bool unwind_ready(void)
{
    return atomic_load_explicit(&ready, memory_order_acquire);
}

/* How many objects were ever unloaded. */
static int read_unloaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        *(uint64_t *)arg = info->dlpi_subs;
    return 1;
}

void unwind_refresh(void)
{
    static uint64_t unloaded;
    uint64_t now = unloaded;
    if (!unwind_ready() || !flush_cache || !local_space)
        return;
    dl_iterate_phdr(read_unloaded, &now);
    if (now != unloaded)
        flush_cache(*local_space, 0, 0);
    unloaded = now;
}

unsigned unwind_frames(void **out, unsigned most, bool below_python)
{
    int n = backtrace(out, (int)most);
    unsigned skip = 0, used = 0;
    while (skip < (unsigned)(n > 0 ? n : 0) && skip < OWN_FRAMES && is_in(own, out[skip]))
        skip++;
    for (unsigned i = skip; i < (unsigned)(n > 0 ? n : 0); i++) {
        if (below_python && is_in(interpreter, out[i]))
            break;
        out[used++] = out[i];
    }
    return used;
}
