/* SPDX-License-Identifier: Apache-2.0 */
/* See debug_info.h. Places of separate files: "Separate Debug Files" in GDB's manual. */
#define _GNU_SOURCE
#include "writer/debug_info.h"

#include <elf.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM "/usr/lib/debug"

static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
    return pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* A note's head is three words, then comes its name: "GNU" and a zero byte. */
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

bool debug_info_has_lines(int fd, const char *path)
{
    Elf64_Ehdr head;
    Elf64_Shdr names, s;
    if (!read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof s ||
        head.e_shstrndx >= head.e_shnum ||
        !read_at(fd, &names, sizeof names, head.e_shoff + head.e_shstrndx * sizeof s))
        return false;
    for (unsigned i = 1; i < head.e_shnum; i++) {
        char name[24] = "";
        if (!read_at(fd, &s, sizeof s, head.e_shoff + i * sizeof s))
            return false;
        if ((s.sh_type != SHT_PROGBITS && s.sh_type != SHT_NOTE) || s.sh_size == 0 ||
            pread(fd, name, sizeof name - 1, (off_t)(names.sh_offset + s.sh_name)) <= 0)
            continue;
        if (strcmp(name, ".debug_line") == 0 || strcmp(name, ".zdebug_line") == 0 ||
            (strcmp(name, ".note.gnu.build-id") == 0 && has_file_of_id(fd, &s)) ||
            (strcmp(name, ".gnu_debuglink") == 0 && has_linked_file(fd, &s, path)))
            return true;
    }
    return false;
}
