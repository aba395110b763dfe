/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the symbol table of a loaded object, without the loader: another library may interpose
 * dlsym(), and then answers for its own place in the search order. */
#ifndef WRITER_OS_ELF_LOADED_H
#define WRITER_OS_ELF_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct elf_loaded {
    const struct dl_phdr_info *info;
    const char *soname; /* "" where it has none */
    const char *strings;
    const ElfW(Sym) * symbols;
    const uint32_t *hash; /* DT_GNU_HASH */
};

/* Describes an object that loader_walk() shows; good as long as the object is loaded. False: it has
 * no such table. */
bool elf_loaded(const struct dl_phdr_info *info, struct elf_loaded *o);

/* The function that the object exports under this name, whatever its version; NULL: none. */
void *elf_loaded_function(const struct elf_loaded *o, const char *name);

/* True when the object was linked to a library whose name begins so (DT_NEEDED). */
bool elf_loaded_needs(const struct elf_loaded *o, const char *prefix);

/* From now on the loader finds no symbol in the object by its name; what is bound stays so.
 * elf_loaded_function() still finds its functions. False: its memory cannot be made writable. In a
 * constructor, while no other thread looks anything up. */
bool elf_loaded_hide(const struct elf_loaded *o);

#endif
