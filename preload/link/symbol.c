/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirects GOT entries. One thread at a time searches; others go on. Names cannot be looked up
 * inside loader_walk(), and objects can be unloaded (dlclose) outside it. Hence three passes:
 *
 *   collect   inside: entries for the name in objects that were not searched yet
 *   resolve   outside: the function that each entry leads to
 *   patch     inside: the entry, if its object is still loaded
 *
 * An object that another thread is still relocating has entries that are not ready, so it is
 * searched again. Some entries never become ready: a weak reference to nothing, memory that another
 * tool left writable, or all of them without /proc. Searches therefore get rarer, and end.
 */
#include "preload/link/symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/settings/settings.h"
#include "preload/link/got.h"
#include "preload/core/core.h"
#include "preload/link/resolve.h"
#include "writer/writer.h"

#define ENTRIES_MOST 64u   /* in one pass */
#define SEEN_MOST    4096u /* remembered; others are searched in every pass */
#define PAUSE_NS     5000000u
#define NEVER        UINT64_MAX
#define AGAIN_MOST   12 /* repeated searches of an object, within 20 s */

/* An object that was searched. */
struct seen {
    const void *dynamic;
    uint64_t again_ns; /* time of the next search, or NEVER */
    unsigned agains;   /* repeated searches so far */
};

/* A GOT entry for the name. */
struct entry {
    void *_Atomic *slot;
    ElfW(Addr) base;
    const void *dynamic; /* with base: identifies the object */
    void *found;         /* the previous value */
    void *stub;          /* NULL: leave the entry alone */
};

_Atomic bool symbol_wanted;

static const char *name;
static const void *own_dynamic;

/* Guarded by `busy`. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static uint64_t looked_at_ns, seen_adds, seen_subs;
static uint64_t next_ns = NEVER; /* the earliest repeated search */
static struct seen seen[SEEN_MOST];
static unsigned n_seen;
static struct entry entries[ENTRIES_MOST];
static unsigned n_entries;
static unsigned reals;

/* Written under `busy`, read by any thread. */
static _Atomic uint64_t redirected; /* number of entries */
static _Atomic bool refused;        /* an entry could not be redirected, if only for a while */

/* ---- collect --------------------------------------------------------------------------------- */

static struct seen *find_seen(const void *dynamic)
{
    for (unsigned i = 0; i < n_seen; i++)
        if (seen[i].dynamic == dynamic)
            return &seen[i];
    return NULL;
}

static void expect_look(uint64_t ns)
{
    next_ns = ns < next_ns ? ns : next_ns;
}

/* Searches the object again later, because an entry is not ready. Each pause doubles. */
static void look_again_at(const void *dynamic)
{
    struct seen *s = find_seen(dynamic);
    if (!s || s->again_ns != NEVER || s->agains == AGAIN_MOST)
        return;
    s->again_ns = looked_at_ns + ((uint64_t)PAUSE_NS << s->agains++);
    expect_look(s->again_ns);
}

/* True when the object is to be searched now; remembers it. */
static bool take_dynamic(const void *dynamic)
{
    struct seen *s = find_seen(dynamic);
    if (s && s->again_ns > looked_at_ns) {
        expect_look(s->again_ns);
        return false;
    }
    if (!s && n_seen < SEEN_MOST) {
        s = &seen[n_seen++];
        *s = (struct seen){.dynamic = dynamic};
    }
    if (s)
        s->again_ns = NEVER;
    return true;
}

static void add_entry(const struct got_object *o, const char *of, void *_Atomic *slot, void *unused)
{
    (void)unused;
    if (strcmp(of, name) != 0)
        return;
    void *found = atomic_load_explicit(slot, memory_order_relaxed);
    for (unsigned i = 0; i < SYMBOL_STUBS; i++)
        if (found == symbol_stub(i))
            return;
    if (!found)
        look_again_at(o->dynamic);
    else if (n_entries < ENTRIES_MOST)
        entries[n_entries++] =
            (struct entry){.slot = slot, .base = o->base, .dynamic = o->dynamic, .found = found};
}

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
    struct got_object o;
    (void)size;
    (void)data;
    /* leaves room for one more object's entries; the next pass does the rest */
    if (n_entries > ENTRIES_MOST / 2) {
        expect_look(looked_at_ns);
        return 1;
    }
    if (got_describe(info, &o) && o.dynamic != own_dynamic && take_dynamic(o.dynamic))
        got_entries(&o, add_entry, NULL);
    return 0;
}

/* ---- resolve --------------------------------------------------------------------------------- */

static bool is_function(void *address)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return false;
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return type == STT_FUNC || type == STT_GNU_IFUNC;
}

/* The stub that calls `real`, taking a free one if necessary; NULL: none is free. */
static void *stub_for(void *real)
{
    unsigned i = 0;
    while (i < reals && atomic_load_explicit(&symbol_reals[i], memory_order_relaxed) != real)
        i++;
    void *stub = symbol_stub(i);
    if (i == reals && stub) {
        atomic_store_explicit(&symbol_reals[i], real, memory_order_release);
        reals++;
    }
    return stub;
}

static void resolve(struct entry *e)
{
    static const struct resolve_library any;
    Dl_info caller, found;
    void *real = resolve_next(name, &any, (const void *)e->slot);
    /* a bound entry counts, unless it still leads to the loader through the caller's own PLT */
    if (dladdr(e->found, &found) && dladdr((const void *)e->slot, &caller) &&
        (found.dli_fbase != caller.dli_fbase || found.dli_saddr == e->found))
        real = e->found;
    if (real && is_function(real))
        e->stub = stub_for(real);
    else
        log_debug("CPROF_STEP=symbol:%s: an entry at %p does not lead to a function", name,
                  (const void *)e->slot);
}

/* ---- patch ----------------------------------------------------------------------------------- */

static int patch(struct dl_phdr_info *info, size_t size, void *data)
{
    struct got_object o;
    (void)size;
    (void)data;
    if (!got_describe(info, &o))
        return 0;
    for (unsigned i = 0; i < n_entries; i++) {
        const struct entry *e = &entries[i];
        if (!e->stub || e->base != o.base || e->dynamic != o.dynamic)
            continue;
        enum got_written done = got_write(&o, e->slot, e->found, e->stub);
        if (done == GOT_WRITTEN)
            atomic_fetch_add_explicit(&redirected, 1, memory_order_relaxed);
        else
            atomic_store_explicit(&refused, true, memory_order_relaxed);
        if (done == GOT_LATER)
            look_again_at(o.dynamic);
    }
    return 0;
}

/* ---- when ------------------------------------------------------------------------------------ */

/* Reads both counts before the search, so that later changes lead to another one. */
static int note_changes(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(bool *)data = info->dlpi_adds != seen_adds;
    if (info->dlpi_subs != seen_subs)
        n_seen = 0; /* another object may be at the same address now */
    seen_adds = info->dlpi_adds;
    seen_subs = info->dlpi_subs;
    return 1;
}

static void look_now(void)
{
    bool changed = false;
    loader_walk(note_changes, &changed);
    if (!changed && looked_at_ns < next_ns)
        return;
    next_ns = NEVER;
    n_entries = 0;
    loader_walk(collect, NULL);
    for (unsigned i = 0; i < n_entries; i++)
        resolve(&entries[i]);
    if (n_entries > 0)
        loader_walk(patch, NULL);
}

void symbol_look_now(void)
{
    if (atomic_load(&cprof_life) == LIFE_OVER)
        return;
    uint64_t now = clock_monotonic_ns();
    if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        return;
    if (now - looked_at_ns >= PAUSE_NS) {
        int saved = errno, cancel = cancel_off();
        looked_at_ns = now;
        look_now();
        cancel_back(cancel);
        errno = saved;
    }
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static int note_own(struct dl_phdr_info *info, size_t size, void *data)
{
    struct got_object o;
    Dl_info own;
    (void)size;
    (void)data;
    if (dladdr((const void *)&symbol_wanted, &own) && got_describe(info, &o) &&
        (ElfW(Addr))(uintptr_t)own.dli_fbase == o.base)
        own_dynamic = o.dynamic;
    return own_dynamic != NULL;
}

void symbol_start(void (*mark)(void))
{
    symbol_mark = mark;
    name = config_step_name(CONFIG_STEP_SYMBOL);
    if (!*name || !symbol_stub(0))
        return;
    loader_walk(note_own, NULL);
    atomic_store(&symbol_wanted, true);
    symbol_look_now();
}

void symbol_finish(void)
{
    if (!config_step_name(CONFIG_STEP_SYMBOL)[0] || atomic_load(&symbol_called))
        return;
    if (atomic_load(&refused))
        log_warn(
            "CPROF_STEP=symbol:%s: its calls could not be redirected: their GOT entries are not "
            "as the loader leaves them, cannot be written, or are not known without /proc; "
            "they marked no step",
            name);
    else if (atomic_load(&redirected) == 0)
        log_warn("CPROF_STEP=symbol:%s: no loaded object calls an exported function of this name; "
                 "it marked no step",
                 name);
}
