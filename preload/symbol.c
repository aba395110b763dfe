/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirecting GOT entries; see preload/symbol.h. One thread at a time looks, others go on. Three passes, because nothing may be looked
 * up by name while the loader's list is held (dl_iterate_phdr), and nothing may be touched while it is not (dlclose):
 *
 *   collect   under the list: entries for the name in objects that were not looked at yet
 *   resolve   outside: what each of them means
 *   patch     under the list: the entry, if its object is still there
 */
#include "preload/symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/config.h"
#include "preload/got.h"
#include "preload/guard.h"
#include "preload/resolve.h"
#include "writer/writer.h"

#define ENTRIES_MOST 64u   /* of one pass */
#define SEEN_MOST    4096u /* remembered; further ones are looked at each time */
#define PAUSE_NS     5000000u

/* A GOT entry for the name. */
struct entry {
    void *_Atomic *slot;
    ElfW(Addr) base;
    const void *dynamic; /* with base: which object */
    void *found;         /* what stood there */
    void *stub;          /* NULL: leave it as it is */
};

_Atomic bool symbol_wanted;

static const char *name;
static const void *own_dynamic;

/* Under `busy`. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static uint64_t looked_at_ns, seen_adds, seen_subs;
static const void *seen[SEEN_MOST]; /* dynamic sections */
static unsigned n_seen;
static struct entry entries[ENTRIES_MOST];
static unsigned n_entries;
static unsigned reals;
static bool again; /* something was not ready or had no room */

static _Atomic uint64_t redirected; /* entries; any thread reads */

/* ---- collect ---------------------------------------------------------------------------------------------- */

static bool is_seen(const void *dynamic)
{
    for (unsigned i = 0; i < n_seen; i++)
        if (seen[i] == dynamic)
            return true;
    return false;
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
    if (n_entries == ENTRIES_MOST || !found) {
        again = true;
        return;
    }
    entries[n_entries++] =
        (struct entry){.slot = slot, .base = o->base, .dynamic = o->dynamic, .found = found};
}

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
    struct got_object o;
    (void)size;
    (void)data;
    seen_adds = info->dlpi_adds;
    if (!got_describe(info, &o) || o.dynamic == own_dynamic || is_seen(o.dynamic))
        return 0;
    got_entries(&o, add_entry, NULL);
    if (n_seen < SEEN_MOST)
        seen[n_seen++] = o.dynamic;
    return 0;
}

/* ---- resolve ---------------------------------------------------------------------------------------------- */

static bool is_function(void *address)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return false;
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return type == STT_FUNC || type == STT_GNU_IFUNC;
}

/* The stub that calls a function, made its own if need be; NULL: there are too many. */
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
    /* what is bound already counts, but for the way to the loader: a place in the caller's own PLT */
    if (dladdr(e->found, &found) && dladdr((const void *)e->slot, &caller) &&
        (found.dli_fbase != caller.dli_fbase || found.dli_saddr == e->found))
        real = e->found;
    if (real && is_function(real))
        e->stub = stub_for(real);
    else
        log_debug("CPROF_STEP=symbol:%s: an entry at %p does not lead to a function", name,
                  (const void *)e->slot);
}

/* ---- patch ------------------------------------------------------------------------------------------------ */

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
        again = again || done == GOT_LATER;
    }
    return 0;
}

/* ---- when ------------------------------------------------------------------------------------------------- */

static int note_changes(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(bool *)data = info->dlpi_adds != seen_adds;
    if (info->dlpi_subs != seen_subs)
        n_seen = 0; /* another object may lie where one was */
    seen_subs = info->dlpi_subs;
    return 1;
}

static void look(void)
{
    bool changed = false;
    loader_walk(note_changes, &changed);
    if (!changed && !again)
        return;
    if (again)
        n_seen = 0;
    again = false;
    n_entries = 0;
    loader_walk(collect, NULL);
    for (unsigned i = 0; i < n_entries; i++)
        resolve(&entries[i]);
    if (n_entries > 0)
        loader_walk(patch, NULL);
}

void symbol_look_now(void)
{
    uint64_t now = clock_monotonic_ns();
    if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        return;
    if (now - looked_at_ns >= PAUSE_NS) {
        int saved = errno, cancel = cancel_off();
        looked_at_ns = now;
        look();
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

void symbol_start(void)
{
    name = config_step_name(CONFIG_STEP_SYMBOL);
    if (!*name || !symbol_stub(0))
        return;
    loader_walk(note_own, NULL);
    atomic_store(&symbol_wanted, true);
    symbol_look_now();
}

void symbol_finish(void)
{
    if (config_step_name(CONFIG_STEP_SYMBOL)[0] && atomic_load(&redirected) == 0)
        log_warn("CPROF_STEP=symbol:%s: no loaded object calls an exported function of this name; "
                 "no step was marked",
                 name);
}
