/* SPDX-License-Identifier: Apache-2.0 */
/* Function names from ELF files. Keeps the addresses of a file's functions; names are read when
 * asked for. */
#define _GNU_SOURCE
#include "writer/stack/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/stack/debug_info.h"
#include "writer/stack/demangle.h"
#include "writer/stack/dso_table.h"

#define TABLE_MOST   (256u << 20) /* bytes of a symbol table */
#define NAME_MOST    1024u        /* longer names are not demangled */
#define SHOWN_MOST   200u         /* of a shortened name */
#define HEADERS_MOST 64u          /* program headers; about a dozen is usual */

struct function {
    uint64_t at; /* address in the file */
    uint32_t size;
    uint32_t name; /* offset in the file's names */
};

/* The functions of an object's file. */
struct module {
    const struct elf_object *object;
    dev_t device;
    ino_t inode;
    uint64_t names; /* offset in the file */
    struct function *functions;
    uint32_t n_functions;
    bool has_lines;
};

static struct module *modules[DSO_MOST]; /* by object index; NULL: not read yet */

/* ---- symbols ---- */

static bool read_at(int fd, void *to, uint64_t size, uint64_t at)
{
    return io_pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* Moves the functions to `to`, sorted by byte `digit` of their address. False: that byte is the
 * same in all. */
static bool sort_by_digit(const struct function *from, struct function *to, uint32_t n,
                          unsigned digit)
{
    uint32_t begin[257] = {0};
    for (uint32_t i = 0; i < n; i++)
        begin[(from[i].at >> 8 * digit & 255) + 1]++;
    if (n == 0 || begin[(from[0].at >> 8 * digit & 255) + 1] == n)
        return false;
    for (unsigned i = 1; i < 256; i++)
        begin[i] += begin[i - 1];
    for (uint32_t i = 0; i < n; i++)
        to[begin[from[i].at >> 8 * digit & 255]++] = from[i];
    return true;
}

/* Radix sort: 10 ms for half a million functions, a tenth of qsort(). No ring is drained meanwhile.
 * Returns the sorted array, which is one of the two, and frees the other. */
static struct function *sort_by_place(struct function *functions, struct function *other,
                                      uint32_t n)
{
    for (unsigned digit = 0; digit < 8; digit++) {
        if (!sort_by_digit(functions, other, n, digit))
            continue;
        struct function *sorted = other;
        other = functions;
        functions = sorted;
    }
    free(other);
    return functions;
}

/* The section headers; free them. NULL: none. One read for all, because each read changes
 * threads. */
static Elf64_Shdr *read_sections(int fd, const Elf64_Ehdr *head)
{
    size_t size = head->e_shnum * sizeof(Elf64_Shdr);
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_shentsize != sizeof(Elf64_Shdr))
        return NULL;
    Elf64_Shdr *sections = size ? malloc(size) : NULL;
    if (sections && read_at(fd, sections, size, head->e_shoff))
        return sections;
    free(sections);
    return NULL;
}

/* The symbol table to read: the full one if the file has it, else that of the loader; or NULL. */
static const Elf64_Shdr *find_table(const Elf64_Shdr *sections, unsigned n)
{
    const Elf64_Shdr *table = NULL;
    for (const Elf64_Shdr *s = sections; s < sections + n; s++) {
        bool full = s->sh_type == SHT_SYMTAB;
        if ((full || (s->sh_type == SHT_DYNSYM && !table)) && s->sh_link < n &&
            s->sh_entsize == sizeof(Elf64_Sym) && s->sh_size && s->sh_size <= TABLE_MOST)
            table = s;
    }
    return table;
}

static void keep_functions(struct module *m, const Elf64_Sym *symbols, size_t n)
{
    struct function *functions = malloc(n * sizeof *functions), *other = malloc(n * sizeof *other);
    if (!functions || !other) {
        free(functions);
        free(other);
        return;
    }
    uint32_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned type = ELF64_ST_TYPE(symbols[i].st_info);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbols[i].st_shndx != SHN_UNDEF)
            functions[kept++] = (struct function){
                symbols[i].st_value,
                symbols[i].st_size < UINT32_MAX ? (uint32_t)symbols[i].st_size : UINT32_MAX,
                symbols[i].st_name};
    }
    m->functions = sort_by_place(functions, other, kept);
    m->n_functions = kept;
}

/* The last file, kept open where its descriptor is not in the program's table. */
static const struct module *opened;
static int opened_fd;

static void close_file(int fd)
{
    if (!io_is_apart() || opened_fd != fd)
        io_close(fd);
}

/* Opens the file; close with close_file(). -1: none, or no longer the file that was read. */
static int open_file(struct module *m)
{
    struct stat st;
    bool apart = io_is_apart();
    if (apart && opened == m)
        return opened_fd;
    int fd = open_foreign(m->object->path, 0, UINT64_MAX, &st);
    if (fd < 0)
        return -1;
    if (!m->inode) {
        m->device = st.st_dev;
        m->inode = st.st_ino;
    }
    if (st.st_dev != m->device || st.st_ino != m->inode) {
        io_close(fd);
        return -1;
    }
    if (apart) {
        if (opened)
            io_close(opened_fd);
        opened = m;
        opened_fd = fd;
    }
    return fd;
}

static bool read_note(const Elf64_Phdr *note, void *to, const void *fd)
{
    return read_at(*(const int *)fd, to, note->p_filesz, note->p_offset);
}

/* False for a file that has replaced the mapped one. */
static bool is_mapped_file(int fd, const Elf64_Ehdr *head, const struct elf_object *o)
{
    Elf64_Phdr headers[HEADERS_MOST];
    return head->e_phnum <= HEADERS_MOST && head->e_phentsize == sizeof *headers &&
           read_at(fd, headers, head->e_phnum * sizeof *headers, head->e_phoff) &&
           dso_table_print(headers, head->e_phnum, read_note, &fd) == o->print;
}

static void read_table(struct module *m, int fd, const Elf64_Shdr *table, const Elf64_Shdr *names)
{
    Elf64_Sym *symbols = malloc(table->sh_size);
    if (symbols && read_at(fd, symbols, table->sh_size, table->sh_offset))
        keep_functions(m, symbols, table->sh_size / sizeof *symbols);
    free(symbols);
    m->names = names->sh_offset;
}

static void read_symbols(struct module *m)
{
    Elf64_Ehdr head;
    int fd = open_file(m);
    if (fd < 0)
        return;
    if (read_at(fd, &head, sizeof head, 0) && is_mapped_file(fd, &head, m->object)) {
        Elf64_Shdr *sections = read_sections(fd, &head);
        const Elf64_Shdr *table = sections ? find_table(sections, head.e_shnum) : NULL;
        if (table)
            read_table(m, fd, table, &sections[table->sh_link]);
        m->has_lines = sections && debug_info_has_lines(fd, &head, sections, m->object->path);
        free(sections);
    }
    close_file(fd);
}

/* The function that contains the address; NULL: the file names none. */
static const struct function *find_function(const struct module *m, uint64_t at)
{
    uint32_t low = 0, high = m->n_functions; /* searches the first function after `at` */
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

/* Reads a name into name[NAME_MOST]. False: unreadable, or no longer the file that was read. */
static bool read_name(struct module *m, const struct function *f, char *name)
{
    int fd = open_file(m);
    if (fd < 0)
        return false;
    ssize_t len = io_pread(fd, name, NAME_MOST - 1, (off_t)(m->names + f->name));
    close_file(fd);
    if (len <= 0)
        return false;
    name[len] = '\0';
    char *version = strchr(name, '@');
    if (version)
        *version = '\0';
    return name[0] != '\0';
}

/* ---- names ---- */

/* The end of the group that begins at name[at] with `open`: after its `close`. */
static size_t end_of_group(const char *name, size_t len, size_t at, char open, char close)
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

/* Length of the operator name at name[at], such as "operator()" or "operator<<"; 0: none. */
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
            at = end_of_group(name, len, at, '<', '>');
        } else if (name[at] == '(') {
            at = end_of_group(name, len, at, '(', ')');
            if (!follows(name, len, at, "::") && !follows(name, len, at, " const::") &&
                !follows(name, len, at, "#") && !follows(name, len, at, "}"))
                break; /* after the parameters, nothing names the function */
            at += follows(name, len, at, " const") ? 6 : 0;
        } else if (follows(name, len, at, " <")) {
            at++;
        } else if (name[at] == ' ' && !(used >= 8 && memcmp(out + used - 8, "operator", 8) == 0)) {
            used = 0; /* drops the return type */
            at++;
        } else {
            out[used++] = name[at++];
        }
    }
    return used;
}

/* The file that contains the call, read if new. NULL: none known, or no memory. */
static struct module *module_of(uint64_t inside, uint32_t number)
{
    const struct elf_object *o = dso_table_find(inside, number);
    if (!o)
        return NULL;
    struct module **m = &modules[dso_table_index(o)];
    if (!*m && (*m = calloc(1, sizeof **m)) != NULL) {
        (*m)->object = o;
        read_symbols(*m);
    }
    return *m;
}

bool symbols_place(uint64_t pc, uint32_t number, struct symbol_place *out)
{
    uint64_t inside = pc - 1; /* the call, not the instruction after it */
    const struct module *m = module_of(inside, number);
    struct stat st;
    if (!m)
        return false;
    const struct elf_object *o = m->object;
    bool same =
        m->has_lines && stat(o->path, &st) == 0 && st.st_dev == m->device && st.st_ino == m->inode;
    *out = (struct symbol_place){o->path, inside - o->base, dso_table_index(o), same};
    return true;
}

void symbols_name(uint64_t pc, uint32_t number, struct buf *b)
{
    struct module *m = module_of(pc - 1, number);
    if (!m)
        return;
    char mangled[NAME_MOST];
    const char *path = m->object->path;
    const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    uint64_t inside = pc - 1 - m->object->base;
    const struct function *f = find_function(m, inside);
    if (!f || !read_name(m, f, mangled)) {
        buf_printf(b, "%s+0x%llx", file, (unsigned long long)inside);
        return;
    }
    size_t len = strlen(mangled);
    const char *name = demangle(mangled, &len);
    char shown[SHOWN_MOST];
    buf_put(b, shown, symbols_shorten(name, len, shown, sizeof shown));
    buf_printf(b, " (%s)", file);
}
