/* SPDX-License-Identifier: Apache-2.0 */
/* The program and the libraries that are loaded, or were: which of those that were one after the
 * other at an address a return address is of. Nothing is ever taken out, so that what was unloaded
 * can still be named. */
#ifndef WRITER_STACK_DSO_TABLE_H
#define WRITER_STACK_DSO_TABLE_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#define DSO_MOST 8192u /* later ones are not known */

/* Constant once it is known. */
struct elf_object {
    uint64_t base;       /* what addresses of the file are moved by */
    uint64_t start, end; /* of its code */
    const char *path;    /* good for the life of the process */
    uint64_t print;      /* dso_table_print() of what is mapped */
};

/* Tells a file from what was at its path before or after: a hash of its program headers and its
 * notes, the build id among them. read() puts the p_filesz bytes of a note into `to`; false: it
 * cannot. 0: there is no print. Pure but for read(). */
uint64_t dso_table_print(const Elf64_Phdr *headers, unsigned n,
                         bool (*read)(const Elf64_Phdr *note, void *to, const void *arg),
                         const void *arg);

/* Looks what was loaded and unloaded since the last call; the answer is another one when something
 * was unloaded. Any thread; waits for the loader's list, which who loads or looks holds for some
 * 100 us. Less than a microsecond when nothing changed; allocates nothing. */
uint32_t dso_table_look(void);

/* What stands for the object that is at an address as of the last look. Any thread; costs nothing
 * until something was unloaded. */
uint32_t dso_table_at(uint64_t address);
#define DSO_FIRST 0u /* the first that was there: none was unloaded there */
/* what was there is unloaded, or another thread looks; it takes dso_table_look_at() to know */
#define DSO_GAP UINT32_MAX

/* The same as of a look that it makes, so that DSO_GAP says that there is no code. Any thread; as
 * dso_table_look(). In a handler of signals that came in a look of its thread it is DSO_GAP. */
uint32_t dso_table_look_at(uint64_t address);

/* The object of an address that dso_table_at() gave `number` for; NULL: it is not known. Any
 * thread. */
const struct elf_object *dso_table_find(uint64_t address, uint32_t number);

/* The object's place among all, below DSO_MOST. */
unsigned dso_table_index(const struct elf_object *object);

#endif
