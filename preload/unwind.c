/* SPDX-License-Identifier: Apache-2.0 */
/* See unwind.h. */
#define _GNU_SOURCE
#include "preload/unwind.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/guard.h"
#include "preload/lines.h"
#include "writer/writer.h"

#define OWN_FRAMES 12u   /* of cprof itself, at the most */
#define FILES      1024u /* that are looked after, of those that are mapped */
#define REUSED     32u   /* ranges of addresses that have seen more than one file */

/* Addresses of the code of one file. */
struct range {
    uintptr_t start, end;
};

/* Code of a file; name: a hash of its path. */
struct file {
    struct range code;
    uint64_t name;
};

/* Where a file was unloaded. */
struct reused {
    /* Whoever refreshes writes, all read; relaxed: a stack taken meanwhile may go either way. */
    _Atomic uintptr_t start, end;
    _Atomic uint32_t epoch;
    uint64_t names; /* of those that are there now, summed up; of who refreshes */
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
        loader_walk(look_at, &s);
    return s.found;
}

static inline bool is_in(struct range r, const void *address)
{
    return (uintptr_t)address - r.start < r.end - r.start;
}

bool unwind_ready(void)
{
    return atomic_load_explicit(&ready, memory_order_acquire);
}

/* ---- files that come and go ---- */

static _Atomic bool refreshing;  /* who set it owns what follows */
static struct file files[FILES]; /* mapped at the last refresh */
static unsigned n_files;
static uint64_t loads, unloads; /* ever, at the last refresh; the loader counts them */
static struct reused reused[REUSED];
static _Atomic unsigned n_reused; /* whoever refreshes adds (release), all read */

struct listing {
    struct file files[FILES];
    unsigned n;
};

static int list_file(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    struct listing *l = out;
    struct range code = {UINTPTR_MAX, 0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        code.start = start < code.start ? start : code.start;
        code.end = start + p->p_memsz > code.end ? start + p->p_memsz : code.end;
    }
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    if (code.end && l->n < FILES)
        l->files[l->n++] = (struct file){code, hash_text(name, strlen(name))};
    return 0;
}

static bool is_listed(const struct listing *l, const struct file *f)
{
    for (unsigned i = 0; i < l->n; i++)
        if (l->files[i].code.start == f->code.start && l->files[i].code.end == f->code.end &&
            l->files[i].name == f->name)
            return true;
    return false;
}

/* The last range takes in all for which there is no other. */
static void note_gone(struct range code)
{
    unsigned n = atomic_load_explicit(&n_reused, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++)
        if (reused[i].start <= code.start && code.end <= reused[i].end)
            return;
    struct reused *r = &reused[n < REUSED ? n : REUSED - 1];
    if (n == REUSED) {
        code.start = code.start < r->start ? code.start : r->start;
        code.end = code.end > r->end ? code.end : r->end;
    }
    atomic_store_explicit(&r->start, code.start, memory_order_relaxed);
    atomic_store_explicit(&r->end, code.end, memory_order_relaxed);
    if (n < REUSED)
        atomic_store_explicit(&n_reused, n + 1, memory_order_release);
}

static void renew_epochs(const struct listing *l)
{
    for (unsigned i = 0; i < atomic_load_explicit(&n_reused, memory_order_relaxed); i++) {
        struct reused *r = &reused[i];
        uint64_t names = 0;
        for (unsigned k = 0; k < l->n; k++)
            if (l->files[k].code.start < r->end && r->start < l->files[k].code.end)
                names += l->files[k].name;
        if (names != r->names)
            atomic_store_explicit(&r->epoch, (uint32_t)unloads, memory_order_relaxed);
        r->names = names;
    }
}

static void look_at_files(void)
{
    static struct listing now;
    now.n = 0;
    loader_walk(list_file, &now);
    for (unsigned i = 0; i < n_files; i++)
        if (!is_listed(&now, &files[i]))
            note_gone(files[i].code);
    renew_epochs(&now);
    memcpy(files, now.files, now.n * sizeof *files);
    n_files = now.n;
}

static void refresh(void)
{
    uint64_t now[2] = {loads, unloads};
    symbols_loads(now);
    if (n_files && now[0] == loads && now[1] == unloads)
        return;
    if (now[1] != unloads && flush_cache && local_space)
        flush_cache(*local_space, 0, 0);
    loads = now[0];
    unloads = now[1];
    look_at_files();
}

void unwind_refresh(void)
{
    if (!unwind_ready() || atomic_exchange_explicit(&refreshing, true, memory_order_acquire))
        return;
    refresh();
    atomic_store_explicit(&refreshing, false, memory_order_release);
}

/* Not only between steps: the sooner it is known, the less is taken for what was there before. */
static void look(void)
{
    unwind_refresh();
    symbols_look();
}

uint32_t unwind_epoch(const void *pc)
{
    unsigned n = atomic_load_explicit(&n_reused, memory_order_acquire);
    for (unsigned i = 0; __builtin_expect(i < n, 0); i++) {
        uintptr_t start = atomic_load_explicit(&reused[i].start, memory_order_relaxed);
        uintptr_t end = atomic_load_explicit(&reused[i].end, memory_order_relaxed);
        if ((uintptr_t)pc - start < end - start)
            return atomic_load_explicit(&reused[i].epoch, memory_order_relaxed);
    }
    return 0;
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
    lines_start();
    static const struct stacks_resolver resolver = {symbols_name, look, lines_want, lines_ask,
                                                    lines_answer};
    stacks_resolve_with(&resolver);
    atomic_store_explicit(&ready, true, memory_order_release);
}

unsigned unwind_frames(void **out, unsigned most, bool below_python)
{
    int cancel =
        cancel_off(); /* it writes to a pipe to learn what may be read, and forks wait for who is inside */
    loader_enter(); /* it looks up code that it has not met yet */
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
