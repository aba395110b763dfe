/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes GOT entries of loaded objects. Entries in RELRO pages are written only once the
 * loader has made the page read-only; before that, another thread may still be relocating the
 * object. */
#define _GNU_SOURCE
#include "preload/link/got.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/writer.h"

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

static uintptr_t page_size(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

bool got_describe(const struct dl_phdr_info *info, struct got_object *o)
{
    memset(o, 0, sizeof *o);
    o->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = (uintptr_t)(o->base + p->p_vaddr);
        if (p->p_type == PT_DYNAMIC) {
            o->dynamic = (const ElfW(Dyn) *)at; /* lint: allow */
        } else if (p->p_type == PT_GNU_RELRO) {
            o->relro = at & ~(page_size() - 1);
            o->relro_end = (at + p->p_memsz) & ~(page_size() - 1);
        }
    }
    return o->dynamic != NULL;
}

/* An absolute address. The loader has relocated those in dynamic sections, except the vDSO's. */
static uintptr_t moved(const struct got_object *o, ElfW(Addr) address)
{
    return (uintptr_t)(address < o->base ? o->base + address : address);
}

struct walk {
    const struct got_object *o;
    const ElfW(Sym) * symbols;
    const char *strings;
    void (*entry)(const struct got_object *o, const char *name, void *_Atomic *slot, void *arg);
    void *arg;
};

static void walk_table(const struct walk *w, uintptr_t table, size_t bytes)
{
    const ElfW(Rela) *r = (const ElfW(Rela) *)table, *end = r + bytes / sizeof *r;
    for (; table && r < end; r++) {
        uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
        if (type == RELOC_CALL || type == RELOC_ADDRESS)
            w->entry(w->o, w->strings + w->symbols[ELF64_R_SYM(r->r_info)].st_name,
                     (void *_Atomic *)(uintptr_t)(w->o->base + r->r_offset), w->arg);
    }
}

/* Tables of an object's dynamic section. find_tables() returns false for an object without
 * symbols. */
struct tables {
    uintptr_t symbols, strings, calls, others;
    size_t calls_bytes, others_bytes;
};

static bool find_tables(const struct got_object *o, struct tables *t)
{
    *t = (struct tables){0};
    for (const ElfW(Dyn) *d = o->dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            t->symbols = moved(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            t->strings = moved(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_JMPREL)
            t->calls = moved(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_PLTRELSZ)
            t->calls_bytes = d->d_un.d_val;
        else if (d->d_tag == DT_RELA)
            t->others = moved(o, d->d_un.d_ptr);
        else if (d->d_tag == DT_RELASZ)
            t->others_bytes = d->d_un.d_val;
    }
    return t->symbols && t->strings;
}

void got_entries(const struct got_object *o,
                 void (*entry)(const struct got_object *o, const char *name, void *_Atomic *slot,
                               void *arg),
                 void *arg)
{
    struct tables t;
    if (!find_tables(o, &t))
        return;
    struct walk w = {o, (const ElfW(Sym) *)t.symbols, (const char *)t.strings, entry, arg};
    walk_table(&w, t.calls, t.calls_bytes);
    walk_table(&w, t.others, t.others_bytes);
}

/* PROT_READ and PROT_WRITE of the address's page, from /proc/self/maps; -1: unknown. */
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
            len = 0; /* a line that does not fit */
    }
    if (fd >= 0)
        close(fd);
    return answer;
}

enum got_written got_write(const struct got_object *o, void *_Atomic *slot, void *found, void *to)
{
    uintptr_t at = (uintptr_t)slot;
    void *page = (void *)(at & ~(page_size() - 1));
    bool relro = at >= o->relro && at < o->relro_end;
    int can = protection(at);
    if (can < 0 || (relro && (can & PROT_WRITE)))
        return GOT_LATER;
    if (!(can & PROT_WRITE) && mprotect(page, page_size(), PROT_READ | PROT_WRITE) != 0)
        return GOT_REFUSED;
    bool written = atomic_compare_exchange_strong(slot, &found, to);
    if (!(can & PROT_WRITE))
        mprotect(page, page_size(), PROT_READ);
    return written ? GOT_WRITTEN : GOT_LATER;
}

/* ---- calls of an object that stays loaded ---- */

struct wanted {
    const char *prefix;
    struct got_call *calls;
    unsigned n;
};

static void note_call(const struct got_object *o, const char *name, void *_Atomic *slot, void *arg)
{
    const struct wanted *wanted = arg;
    uintptr_t at = (uintptr_t)slot;
    if (at >= o->relro && at < o->relro_end)
        return;
    for (unsigned i = 0; i < wanted->n; i++)
        if (strcmp(name, wanted->calls[i].name) == 0)
            wanted->calls[i].slot = slot;
}

static int look_for_calls(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct wanted *wanted = arg;
    struct got_object o;
    struct tables t;
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash + 1, wanted->prefix, strlen(wanted->prefix)) != 0)
        return 0;
    if (got_describe(info, &o) && find_tables(&o, &t)) {
        struct walk w = {&o, (const ElfW(Sym) *)t.symbols, (const char *)t.strings, note_call, arg};
        walk_table(&w, t.calls, t.calls_bytes);
    }
    return 1;
}

void got_find_calls(const char *prefix, struct got_call *calls, unsigned n)
{
    struct wanted wanted = {prefix, calls, n};
    for (unsigned i = 0; i < n; i++)
        calls[i].slot = NULL;
    loader_walk(look_for_calls, &wanted);
}

/* Tests with FUTEX_WAKE_OP, which adds 0 to the word: EFAULT where a write would be a fault. */
static bool is_writable(void *_Atomic *slot)
{
    static _Atomic uint32_t nobody_waits;
    return syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, NULL, slot,
                   FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
}

bool got_swap(void *_Atomic *slot, void *found, void *to)
{
    int saved = errno;
    bool done = atomic_load(slot) == found && is_writable(slot) &&
                atomic_compare_exchange_strong(slot, &found, to);
    errno = saved;
    return done;
}
