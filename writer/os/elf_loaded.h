/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the symbol table of a loaded object without the loader: another library may interpose
 * dlsym(), whose answer then depends on that library's place in the search order. */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct elf_loaded {
    const struct dl_phdr_info *info;
    const char *soname; /* "": none */
    const char *strings;
    const ElfW(Sym) * symbols;
    const uint32_t *hash; /* DT_GNU_HASH */
};

/* Describes an object of loader_walk(); valid while the object is loaded. False: it lacks one of
 * the tables. */
bool elf_loaded(const struct dl_phdr_info *info, struct elf_loaded *o);

/* The function that the object exports under this name, of any version; NULL: none. */
void *elf_loaded_function(const struct elf_loaded *o, const char *name);

/* True when the object is linked to a library whose name begins with `prefix` (DT_NEEDED). */
bool elf_loaded_needs(const struct elf_loaded *o, const char *prefix);

/* The loader finds no symbol of the object by name any more; existing bindings stay, and
 * elf_loaded_function() still works. False: the memory cannot be made writable. Only in a
 * constructor, while no other thread looks up symbols. */
bool elf_loaded_hide(const struct elf_loaded *o);
