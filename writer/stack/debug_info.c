/* SPDX-License-Identifier: Apache-2.0 */
/* Finds separate files with debug symbols; their places are in GDB's manual, "Separate Debug
 * Files". */
#define _GNU_SOURCE
#include "writer/stack/debug_info.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer/base/base.h"

#define SYSTEM     "/usr/lib/debug"
#define NAMES_MOST (1u << 20) /* bytes of all section names; a few hundred are usual */

static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
    return io_pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* A note is a head of three words, then its name: "GNU" and a zero byte. */
static bool has_file_of_id(int fd, const Elf64_Shdr *note)
{
    struct {
        Elf64_Nhdr head;
        char name[4];
        uint8_t id[20];
    } n;
    if (note->sh_size < sizeof n || !read_at(fd, &n, sizeof n, note->sh_offset) ||
        n.head.n_type != NT_GNU_BUILD_ID || n.head.n_namesz != 4 || n.head.n_descsz != sizeof n.id)
        return false;
    char path[128];
    int used = snprintf(path, sizeof path, SYSTEM "/.build-id/%02x/", n.id[0]);
    for (unsigned i = 1; i < sizeof n.id; i++)
        used += snprintf(path + used, sizeof path - (size_t)used, "%02x", n.id[i]);
    memcpy(path + used, ".debug", sizeof ".debug");
    return access(path, R_OK) == 0;
}

static bool has_linked_file(int fd, const Elf64_Shdr *link, const char *path)
{
    char name[NAME_MAX + 1], tried[PATH_MAX];
    size_t n = link->sh_size < sizeof name ? link->sh_size : sizeof name;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) : 0;
    if (n < 2 || !slash || !read_at(fd, name, n, link->sh_offset) || !memchr(name, '\0', n))
        return false;
    static const char *const forms[] = {"%.*s/%s", "%.*s/.debug/%s", SYSTEM "%.*s/%s"};
    for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
        int used = snprintf(tried, sizeof tried, forms[i], folder, path, name);
        if (used < (int)sizeof tried && strcmp(tried, path) != 0 && access(tried, R_OK) == 0)
            return true;
    }
    return false;
}

static bool leads_to_lines(int fd, const Elf64_Shdr *s, const char *name, const char *path)
{
    return strcmp(name, ".debug_line") == 0 || strcmp(name, ".zdebug_line") == 0 ||
           (strcmp(name, ".note.gnu.build-id") == 0 && has_file_of_id(fd, s)) ||
           (strcmp(name, ".gnu_debuglink") == 0 && has_linked_file(fd, s, path));
}

/* The section names with a final NUL; free it. NULL: unreadable. */
static char *read_names(int fd, const Elf64_Shdr *table)
{
    char *names = table->sh_size <= NAMES_MOST ? malloc(table->sh_size + 1) : NULL;
    if (!names || !read_at(fd, names, table->sh_size, table->sh_offset)) {
        free(names);
        return NULL;
    }
    names[table->sh_size] = '\0';
    return names;
}

bool debug_info_has_lines(int fd, const Elf64_Ehdr *head, const Elf64_Shdr *sections,
                          const char *path)
{
    if (head->e_shstrndx >= head->e_shnum)
        return false;
    const Elf64_Shdr *table = &sections[head->e_shstrndx];
    char *names = read_names(fd, table);
    bool found = false;
    for (unsigned i = 1; names && !found && i < head->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        found = (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOTE) && s->sh_size != 0 &&
                s->sh_name < table->sh_size && leads_to_lines(fd, s, names + s->sh_name, path);
    }
    free(names);
    return found;
}
