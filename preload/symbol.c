/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirecting GOT entries; see preload/symbol.h. One thread at a time looks, others go on. Three passes, because nothing may be looked
 * up by name while the loader's list is held (dl_iterate_phdr), and nothing may be touched while it is not (dlclose):
 *
 *   collect   under the list: entries for the name in objects that were not looked at yet
 *   resolve   outside: what each of them means
 *   patch     under the list: the entry, if its object is still there
 *
 * An entry in a RELRO page is written only when the loader has made that page read-only: until then it may still be relocating the
 * object, on another thread. The page is writable only for the moment of the write.
 */
#include "preload/symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/config.h"
#include "preload/guard.h"
#include "preload/resolve.h"
#include "writer/writer.h"

#define ENTRIES_MOST 64u   /* of one pass */
#define SEEN_MOST    4096u /* remembered; further ones are looked at each time */
#define PAUSE_NS     5000000u

#if defined(__x86_64__)
#define RELOC_CALL    R_X86_64_JUMP_SLOT
#define RELOC_ADDRESS R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define RELOC_CALL    R_AARCH64_JUMP_SLOT
#define RELOC_ADDRESS R_AARCH64_GLOB_DAT
#else
#define RELOC_CALL    UINT32_MAX
#define RELOC_ADDRESS UINT32_MAX
#endif

/* A GOT entry for the name. */
struct entry {
    void *_Atomic *slot;
    ElfW(Addr) base;
    const void *dynamic; /* with base: which object */
    void *found;         /* what stood there */
    void *stub;          /* NULL: leave it as it is */
    bool relro;
};

/* What the loader says about one object. */
struct object {
    ElfW(Addr) base;
    const ElfW(Dyn) * dynamic;
    uintptr_t relro, relro_end; /* whole pages */
};

_Atomic bool symbol_wanted;

static const char *name;
static uintptr_t page_size;
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

static bool describe(const struct dl_phdr_info *info, struct object *o)
{
    memset(o, 0, sizeof *o);
    o->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = (uintptr_t)(o->base + p->p_vaddr);
        if (p->p_type == PT_DYNAMIC) {
            o->dynamic = (const ElfW(Dyn) *)at; /* lint: allow */
        } else if (p->p_type == PT_GNU_RELRO) {
            o->relro = at & ~(page_size - 1);
            o->relro_end = (at + p->p_memsz) & ~(page_size - 1);
        }
    }
    return o->dynamic != NULL;
}

/* An address of the dynamic section, which the loader has moved to where the object is (but for the kernel's own object). */
static uintptr_t moved(const struct object *o, ElfW(Addr) address)
{
    return (uintptr_t)(address < o->base ? o->base + address : address);
}

static void add_entry(const struct object *o, uintptr_t at)
{
    void *_Atomic *slot = (void *_Atomic *)at;
    void *found = atomic_load_explicit(slot, memory_order_relaxed);
    for (unsigned i = 0; i < SYMBOL_STUBS; i++)
        if (found == symbol_stub(i))
            return;
    if (n_entries == ENTRIES_MOST || !found) {
        again = true;
        return;
    }
    entries[n_entries++] = (struct entry){.slot = slot,
                                          .base = o->base,
                                          .dynamic = o->dynamic,
                                          .found = found,
                                          .relro = at >= o->relro && at < o->relro_end};
}

static void scan(const struct object *o, uintptr_t table, size_t bytes, const ElfW(Sym) * symbols,
                 const char *strings)
{
    const ElfW(Rela) *r = (const ElfW(Rela) *)table, *end = r + bytes / sizeof *r;
    for (; r < end; r++) {
        uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
        if ((type == RELOC_CALL || type == RELOC_ADDRESS) &&
            strcmp(strings + symbols[ELF64_R_SYM(r->r_info)].st_name, name) == 0)
            add_entry(o, (uintptr_t)(o->base + r->r_offset));
    }
}

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
    struct object o;
    uintptr_t symbols = 0, strings = 0, calls = 0, others = 0;
    size_t calls_bytes = 0, others_bytes = 0;
    (void)size;
    (void)data;
    seen_adds = info->dlpi_adds;
    if (!describe(info, &o) || o.dynamic == own_dynamic || is_seen(o.dynamic))
        return 0;
    for (const ElfW(Dyn) *d = o.dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = moved(&o, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            strings = moved(&o, d->d_un.d_ptr);
        else if (d->d_tag == DT_JMPREL)
            calls = moved(&o, d->d_un.d_ptr);
        else if (d->d_tag == DT_PLTRELSZ)
            calls_bytes = d->d_un.d_val;
        else if (d->d_tag == DT_RELA)
            others = moved(&o, d->d_un.d_ptr);
        else if (d->d_tag == DT_RELASZ)
            others_bytes = d->d_un.d_val;
    }
    if (symbols && strings) {
        const ElfW(Sym) *table = (const ElfW(Sym) *)symbols;
        scan(&o, calls, calls ? calls_bytes : 0, table, (const char *)strings);
        scan(&o, others, others ? others_bytes : 0, table, (const char *)strings);
    }
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

/* PROT_READ and PROT_WRITE of the page that holds the address, as /proc says; -1: not known. */
static int protection(uintptr_t address)
{
    char buf[4096];
    size_t len = 0;
    ssize_t n;
    int answer = -1, fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && answer < 0 && (n = read(fd, buf + len, sizeof buf - 1 - len)) > 0) {
        len += (size_t)n;
        buf[len] = '\0';
        char *line = buf, *next;
        for (; (next = strchr(line, '\n')); line = next + 1) {
            char *p;
            uintptr_t from = strtoul(line, &p, 16);
            uintptr_t to = *p == '-' ? strtoul(p + 1, &p, 16) : 0;
            if (address >= from && address < to && *p == ' ')
                answer = (p[1] == 'r' ? PROT_READ : 0) | (p[2] == 'w' ? PROT_WRITE : 0);
        }
        len -= (size_t)(line - buf);
        memmove(buf, line, len);
        if (len == sizeof buf - 1)
            len = 0; /* a line without end */
    }
    if (fd >= 0)
        close(fd);
    return answer;
}

static void write_entry(struct entry *e)
{
    void *page = (void *)((uintptr_t)e->slot & ~(page_size - 1));
    int can = protection((uintptr_t)e->slot);
    if (can < 0 || (e->relro && (can & PROT_WRITE))) {
        again = true; /* not ready */
        return;
    }
    if (!(can & PROT_WRITE) && mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0)
        return;
    if (atomic_compare_exchange_strong(e->slot, &e->found, e->stub))
        atomic_fetch_add_explicit(&redirected, 1, memory_order_relaxed);
    else
        again = true; /* bound meanwhile */
    if (!(can & PROT_WRITE))
        mprotect(page, page_size, PROT_READ);
}

static int patch(struct dl_phdr_info *info, size_t size, void *data)
{
    struct object o;
    (void)size;
    (void)data;
    if (!describe(info, &o))
        return 0;
    for (unsigned i = 0; i < n_entries; i++)
        if (entries[i].stub && entries[i].base == o.base && entries[i].dynamic == o.dynamic)
            write_entry(&entries[i]);
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
    struct object o;
    Dl_info own;
    (void)size;
    (void)data;
    if (dladdr((const void *)&symbol_wanted, &own) && describe(info, &o) &&
        (ElfW(Addr))(uintptr_t)own.dli_fbase == o.base)
        own_dynamic = o.dynamic;
    return own_dynamic != NULL;
}

void symbol_start(void)
{
    name = config_step_name(CONFIG_STEP_SYMBOL);
    if (!*name || !symbol_stub(0))
        return;
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
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
