/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a symbol in the ELF tables of a loaded object. The hash table is DT_GNU_HASH: four numbers,
 * the words of a Bloom filter, the buckets, and the hashes of the symbols, whose lowest bit ends a
 * bucket. */
#include "writer/os/elf_loaded.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUCKETS, FIRST_SYMBOL, FILTER_WORDS, FILTER_SHIFT, HEAD };

/* The loader has added the base to addresses in the dynamic section, except in the kernel's own
 * object. */
static uintptr_t moved(const struct dl_phdr_info *info, ElfW(Addr) address)
{
    return (uintptr_t)(address < info->dlpi_addr ? info->dlpi_addr + address : address);
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

bool elf_loaded(const struct dl_phdr_info *info, struct elf_loaded *o)
{
    const ElfW(Dyn) *d = dynamic_of(info), *soname = NULL;
    *o = (struct elf_loaded){.info = info, .soname = ""};
    for (; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            o->symbols = (const ElfW(Sym) *)moved(info, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            o->strings = (const char *)moved(info, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            o->hash = (const uint32_t *)moved(info, d->d_un.d_ptr);
        else if (d->d_tag == DT_SONAME)
            soname = d;
    }
    if (soname && o->strings)
        o->soname = o->strings + soname->d_un.d_val;
    return o->symbols && o->strings && o->hash;
}

static uint32_t hash_of_symbol(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

void *elf_loaded_function(const struct elf_loaded *o, const char *name)
{
    const uint32_t *head = o->hash;
    const uint32_t *buckets =
        head + HEAD + head[FILTER_WORDS] * (sizeof(ElfW(Addr)) / sizeof *buckets);
    const uint32_t *hashes = buckets + head[BUCKETS];
    uint32_t hash = hash_of_symbol(name), at = head[BUCKETS] ? buckets[hash % head[BUCKETS]] : 0;
    if (at < head[FIRST_SYMBOL])
        return NULL;
    for (;; at++) {
        const ElfW(Sym) *symbol = &o->symbols[at];
        uint32_t its = hashes[at - head[FIRST_SYMBOL]];
        if ((its | 1) == (hash | 1) && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
            symbol->st_shndx != SHN_UNDEF && strcmp(o->strings + symbol->st_name, name) == 0)
            return (void *)(uintptr_t)(o->info->dlpi_addr + symbol->st_value);
        if (its & 1)
            return NULL;
    }
}

bool elf_loaded_needs(const struct elf_loaded *o, const char *prefix)
{
    for (const ElfW(Dyn) *d = dynamic_of(o->info); d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED &&
            strncmp(o->strings + d->d_un.d_val, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* PROT_READ and so on of the segment that contains the address. */
static int protection_of(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
                   (p->p_flags & PF_X ? PROT_EXEC : 0);
    }
    return PROT_NONE;
}

/* Clears the Bloom filter, so that no name passes. */
bool elf_loaded_hide(const struct elf_loaded *o)
{
    ElfW(Addr) *filter = (ElfW(Addr) *)(uintptr_t)(o->hash + HEAD);
    size_t bytes = o->hash[FILTER_WORDS] * sizeof *filter;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)filter & ~(page - 1);
    size_t length = (uintptr_t)filter + bytes - from;
    int before = protection_of(o->info, from);
    if (before == PROT_NONE || mprotect((void *)from, length, before | PROT_WRITE) != 0)
        return false;
    memset(filter, 0, bytes);
    mprotect((void *)from, length, before);
    return true;
}
