/* SPDX-License-Identifier: Apache-2.0 */
/* Captures native frames by libunwind. */
#define _GNU_SOURCE
#include "preload/stacks/unwind.h"

#include <dlfcn.h>
#include <stddef.h>

#include "preload/stacks/lines.h"
#include "preload/link/link.h"
#include "writer/writer.h"

#define OWN_FRAMES 12u /* most frames of cprof itself */

/* Addresses of one file's code. */
struct range {
    uintptr_t start, end;
};

/* Written once, before `ready`. */
static int (*backtrace)(void **out, int most);                          /* unw_backtrace */
static void (*flush_cache)(void *space, uintptr_t low, uintptr_t high); /* unw_flush_cache */
static void *const *local_space;                                        /* unw_local_addr_space */
static struct range own, interpreter;
static _Atomic bool ready;

/* dso_table_look() at the last flush of libunwind's cache; any thread */
static _Atomic uint32_t flushed;

/* The code range that contains the address. */
static struct range code_around(const void *address)
{
    uint64_t at = (uintptr_t)address;
    const struct elf_object *o = address ? dso_table_find(at, dso_table_at(at)) : NULL;
    return o ? (struct range){o->start, o->end} : (struct range){0, 0};
}

static inline bool is_in(struct range r, const void *address)
{
    return (uintptr_t)address - r.start < r.end - r.start;
}

bool unwind_ready(void)
{
    return atomic_load_explicit(&ready, memory_order_acquire);
}

/* ---- loading and unloading ---- */

void unwind_refresh(void)
{
    if (!unwind_ready())
        return;
    uint32_t losses = dso_table_look();
    if (atomic_load_explicit(&flushed, memory_order_acquire) == losses)
        return;
    if (flush_cache && local_space)
        flush_cache(*local_space, 0, 0);
    atomic_store_explicit(&flushed, losses,
                          memory_order_release); /* until here another thread may flush, too */
}

uint32_t unwind_object(const void *pc)
{
    uint32_t number = dso_table_at((uintptr_t)pc);
    if (__builtin_expect(number == DSO_GAP, 0)) {
        number = dso_table_look_at((uintptr_t)pc);
        unwind_refresh();
    }
    return number;
}

void unwind_start(void)
{
    static const char *const names[] = {"libunwind.so.8", "libunwind.so.1", "libunwind.so"};
    void *library = NULL;
    for (unsigned i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) {
        *(void **)&backtrace = loader_symbol(library, "unw_backtrace");
#if defined(__x86_64__)
        *(void **)&flush_cache = loader_symbol(library, "_Ux86_64_flush_cache");
        local_space = loader_symbol(library, "_ULx86_64_local_addr_space");
#elif defined(__aarch64__)
        *(void **)&flush_cache = loader_symbol(library, "_Uaarch64_flush_cache");
        local_space = loader_symbol(library, "_ULaarch64_local_addr_space");
#endif
    }
    if (!backtrace) {
        static const char note[] = "native stacks are not recorded: there is no libunwind.so.8 "
                                   "(Debian: libunwind8)";
        log_warn("%s; all else is", note);
        writer_note(note);
        return;
    }
    readable_without_pipe(library);
    atomic_store_explicit(&flushed, dso_table_look(), memory_order_relaxed);
    own = code_around((const void *)(uintptr_t)&unwind_start);
    interpreter = code_around(loader_symbol(RTLD_DEFAULT, "_PyEval_EvalFrameDefault"));
    lines_start();
    static const struct stacks_resolver resolver = {symbols_name, unwind_refresh, lines_want,
                                                    lines_ask, lines_answer};
    stacks_resolve_with(&resolver);
    resolve_on_closing(unwind_refresh);
    atomic_store_explicit(&ready, true, memory_order_release);
}

void unwind_edge_before(const struct edge_change *change)
{
    if (change->stacks)
        unwind_refresh();
}

unsigned unwind_frames(void **out, unsigned most, bool below_python)
{
    /* Objects may have been unloaded since the last refresh, and new code may be at their
     * addresses. */
    if (__builtin_expect(resolve_is_closing(atomic_load(&resolve_closings)), 0))
        unwind_refresh();
    /* it reads debug files, where the thread could be cancelled; a fork waits for threads inside */
    int cancel = cancel_off();
    loader_enter(); /* it may look up new code */
    int n = backtrace(out, (int)most);
    loader_leave();
    cancel_back(cancel);
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
