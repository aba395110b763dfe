/* SPDX-License-Identifier: Apache-2.0 */
/* See symbols.h. Kept of a file are the places of its functions; their names are read when they are asked for. */
#define _GNU_SOURCE
#include "writer/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/debug_info.h"
#include "writer/demangle.h"
#include "writer/writer.h"

#define TABLE_MOST (256u << 20) /* bytes of a symbol table */
#define NAME_MOST  1024u        /* beyond it the demangler does not go */
#define SHOWN_MOST 200u         /* of a shortened name */

struct function {
    uint64_t at; /* as the file has it */
    uint32_t size;
    uint32_t name; /* offset among the file's names */
};

/* A file that is mapped, or was. */
struct module {
    uint64_t base, start, end; /* what addresses of the file are moved by; first and last address */
    uint32_t from, until;      /* epochs in which it was there */
    uint32_t present;          /* epoch in which it was seen last */
    char *path;
    dev_t device;
    ino_t inode;
    uint64_t names; /* offset in the file */
    struct function *functions;
    uint32_t n_functions;
    bool looked, has_lines;
};

static struct module *modules; /* of two in one place the later one stands behind */
static unsigned n_modules;
static uint64_t loads, unloads; /* ever, when it was last looked; the loader counts them */

/* ---- modules ---- */

/* The one that was last seen where these addresses are, or NULL. */
static struct module *newest_in(uint64_t start, uint64_t end)
{
    for (unsigned i = n_modules; i > 0; i--)
        if (modules[i - 1].start < end && start < modules[i - 1].end)
            return &modules[i - 1];
    return NULL;
}

static char *path_of(const struct dl_phdr_info *info)
{
    char exe[PATH_MAX];
    if (info->dlpi_name && info->dlpi_name[0])
        return strdup(info->dlpi_name);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    return strdup(exe);
}

/* What was unloaded stays in the list: frames that it had may still have to be named. */
static int add_module(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    uint64_t start = UINT64_MAX, end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        uint64_t from = info->dlpi_addr + p->p_vaddr;
        start = from < start ? from : start;
        end = from + p->p_memsz > end ? from + p->p_memsz : end;
    }
    if (end == 0)
        return 0;
    struct module *before = newest_in(start, end);
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    if (before && before->base == info->dlpi_addr && before->start == start && before->end == end &&
        (!name[0] || strcmp(before->path, name) == 0)) {
        before->present = (uint32_t)unloads;
        return 0;
    }
    uint32_t from = before ? before->present + 1 : 0; /* it was unloaded since */
    if (before)
        before->until = from - 1;
    char *path = n_modules < SYMBOLS_FILES ? path_of(info) : NULL;
    struct module *more = path ? realloc(modules, (n_modules + 1) * sizeof *more) : NULL;
    if (!more) {
        free(path);
        return 0;
    }
    modules = more;
    modules[n_modules++] = (struct module){.base = info->dlpi_addr,
                                           .start = start,
                                           .end = end,
                                           .from = from,
                                           .until = UINT32_MAX,
                                           .present = (uint32_t)unloads,
                                           .path = path};
    return 0;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *out)
{
    uint64_t *counts = out;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        counts[0] = info->dlpi_adds;
        counts[1] = info->dlpi_subs;
    }
    return 1;
}

void symbols_loads(uint64_t counts[2])
{
    loader_walk(read_counts, counts);
}

void symbols_look(void)
{
    uint64_t now[2] = {loads, unloads};
    symbols_loads(now);
    if (n_modules && now[0] == loads && now[1] == unloads)
        return;
    loads = now[0];
    unloads = now[1];
    loader_walk(add_module, NULL);
}

static struct module *find_module(uint64_t pc, uint32_t epoch)
{
    for (unsigned i = n_modules; i > 0; i--) {
        struct module *m = &modules[i - 1];
        if (pc >= m->start && pc < m->end && epoch >= m->from && epoch <= m->until)
            return m;
    }
    return NULL;
}

/* ---- symbols ---- */

static bool read_at(int fd, void *to, uint64_t size, uint64_t at)
{
    return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const struct function *)a)->at, y = ((const struct function *)b)->at;
    return x < y ? -1 : x > y;
}

/* The table to read: the full one where the file still has it, else that of the loader. */
static bool find_table(int fd, Elf64_Shdr *table, Elf64_Shdr *names)
{
    Elf64_Ehdr head;
    if (!read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    bool found = false;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr s;
        if (!read_at(fd, &s, sizeof s, head.e_shoff + i * sizeof s))
            return false;
        bool full = s.sh_type == SHT_SYMTAB;
        if ((full || (s.sh_type == SHT_DYNSYM && !found)) && s.sh_link < head.e_shnum &&
            s.sh_entsize == sizeof(Elf64_Sym) && s.sh_size && s.sh_size <= TABLE_MOST) {
            *table = s;
            found = read_at(fd, names, sizeof *names, head.e_shoff + s.sh_link * sizeof s);
        }
    }
    return found;
}

static void keep_functions(struct module *m, const Elf64_Sym *symbols, size_t n)
{
    m->functions = malloc(n * sizeof *m->functions);
    if (!m->functions)
        return;
    uint32_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned type = ELF64_ST_TYPE(symbols[i].st_info);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbols[i].st_shndx != SHN_UNDEF)
            m->functions[kept++] = (struct function){
                symbols[i].st_value,
                symbols[i].st_size < UINT32_MAX ? (uint32_t)symbols[i].st_size : UINT32_MAX,
                symbols[i].st_name};
    }
    qsort(m->functions, kept, sizeof *m->functions, by_place);
    m->n_functions = kept;
}

static int open_file(const struct module *m, struct stat *st)
{
    int fd = open(m->path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void read_symbols(struct module *m)
{
    Elf64_Shdr table = {0}, names = {0};
    struct stat st;
    int fd = open_file(m, &st);
    if (fd < 0)
        return;
    m->device = st.st_dev;
    m->inode = st.st_ino;
    if (find_table(fd, &table, &names)) {
        Elf64_Sym *symbols = malloc(table.sh_size);
        if (symbols && read_at(fd, symbols, table.sh_size, table.sh_offset))
            keep_functions(m, symbols, table.sh_size / sizeof *symbols);
        free(symbols);
        m->names = names.sh_offset;
    }
    m->has_lines = debug_info_has_lines(fd, m->path);
    close(fd);
}

/* The function that holds the address; NULL: none that the file names. */
static const struct function *find_function(const struct module *m, uint64_t at)
{
    uint32_t low = 0, high = m->n_functions; /* the first one behind `at` */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->functions[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    const struct function *f = low ? &m->functions[low - 1] : NULL;
    return f && (f->size == 0 || at - f->at < f->size) ? f : NULL;
}

/* Into name[NAME_MOST]; false when the file is not the one any more whose table was read. */
static bool read_name(const struct module *m, const struct function *f, char *name)
{
    struct stat st;
    int fd = open_file(m, &st);
    if (fd < 0)
        return false;
    ssize_t n = -1;
    if (st.st_dev == m->device && st.st_ino == m->inode)
        n = pread(fd, name, NAME_MOST - 1, (off_t)(m->names + f->name));
    close(fd);
    if (n <= 0)
        return false;
    name[n] = '\0';
    char *version = strchr(name, '@');
    if (version)
        *version = '\0';
    return name[0] != '\0';
}

/* ---- names ---- */

/* Where the group that begins at name[at] with `open` ends: behind its `close`. */
static size_t behind_group(const char *name, size_t len, size_t at, char open, char close)
{
    unsigned depth = 0;
    for (; at < len; at++) {
        bool arrow = at > 0 && name[at] == '>' && name[at - 1] == '-';
        if (name[at] == open)
            depth++;
        else if (name[at] == close && !arrow && --depth == 0)
            return at + 1;
    }
    return len;
}

static bool follows(const char *name, size_t len, size_t at, const char *text)
{
    size_t n = strlen(text);
    return len - at >= n && memcmp(name + at, text, n) == 0;
}

/* Bytes of the operator's name that begins at name[at], "operator()", "operator<<"; 0: there is none. */
static size_t operator_here(const char *name, size_t len, size_t at)
{
    static const char word[] = "operator";
    if (!follows(name, len, at, word) || (at > 0 && name[at - 1] != ':' && name[at - 1] != ' '))
        return 0;
    size_t end = at + sizeof word - 1;
    if (follows(name, len, end, "()") || follows(name, len, end, "[]"))
        return sizeof word + 1;
    while (end < len && strchr("<>=+-*/%^&|!~,", name[end]))
        end++;
    return end == at + sizeof word - 1 ? 0 : end - at;
}

size_t symbols_shorten(const char *name, size_t len, char *out, size_t size)
{
    static const char anonymous[] = "(anonymous namespace)";
    size_t used = 0, at = 0, more;
    while (at < len && used < size) {
        more = operator_here(name, len, at);
        if (!more && follows(name, len, at, anonymous))
            more = sizeof anonymous - 1;
        if (more) {
            more = more < size - used ? more : size - used;
            memcpy(out + used, name + at, more);
            used += more;
            at += more;
        } else if (name[at] == '<') {
            at = behind_group(name, len, at, '<', '>');
        } else if (name[at] == '(') {
            at = behind_group(name, len, at, '(', ')');
            if (!follows(name, len, at, "::") && !follows(name, len, at, " const::") &&
                !follows(name, len, at, "#") && !follows(name, len, at, "}"))
                break; /* behind the parameters nothing names the function */
            at += follows(name, len, at, " const") ? 6 : 0;
        } else if (follows(name, len, at, " <")) {
            at++;
        } else if (name[at] == ' ' && !(used >= 8 && memcmp(out + used - 8, "operator", 8) == 0)) {
            used = 0; /* it was the type that is returned */
            at++;
        } else {
            out[used++] = name[at++];
        }
    }
    return used;
}

/* The file that the call is in, once it was read; NULL: none is known there. */
static struct module *module_of(uint64_t inside, uint32_t epoch)
{
    struct module *m = find_module(inside, epoch);
    if (!m) {
        symbols_look();
        m = find_module(inside, epoch);
    }
    if (m && !m->looked)
        read_symbols(m);
    if (m)
        m->looked = true;
    return m;
}

bool symbols_place(uint64_t pc, uint32_t epoch, struct symbol_place *out)
{
    uint64_t inside = pc - 1; /* the call, not what it returns to */
    const struct module *m = module_of(inside, epoch);
    struct stat st;
    if (!m)
        return false;
    bool same =
        m->has_lines && stat(m->path, &st) == 0 && st.st_dev == m->device && st.st_ino == m->inode;
    *out = (struct symbol_place){m->path, inside - m->base, (unsigned)(m - modules), same};
    return true;
}

void symbols_name(uint64_t pc, uint32_t epoch, struct buf *b)
{
    uint64_t inside = pc - 1;
    const struct module *m = module_of(inside, epoch);
    if (!m)
        return;
    char mangled[NAME_MOST];
    const char *file = strrchr(m->path, '/') ? strrchr(m->path, '/') + 1 : m->path;
    const struct function *f = find_function(m, inside - m->base);
    if (!f || !read_name(m, f, mangled)) {
        buf_printf(b, "%s+0x%llx", file, (unsigned long long)(inside - m->base));
        return;
    }
    size_t len = strlen(mangled);
    const char *name = demangle(mangled, &len);
    char shown[SHOWN_MOST];
    buf_put(b, shown, symbols_shorten(name, len, shown, sizeof shown));
    buf_printf(b, " (%s)", file);
}
