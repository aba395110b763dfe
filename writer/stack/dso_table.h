/* SPDX-License-Identifier: Apache-2.0 */
/* The program and its libraries, loaded or unloaded: which of those that were at an address in turn
 * a return address belongs to. Nothing is ever removed, so unloaded code can still be named. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#define DSO_MOST 8192u /* further objects are unknown */

/* Constant once published. */
struct elf_object {
    uint64_t base;       /* load address less address in the file */
    uint64_t start, end; /* of its code */
    const char *path;    /* never freed */
    uint64_t print;      /* dso_table_print() of the mapped object */
};

/* A hash that tells a file from others at the same path: of its program headers and notes, the
 * build id among them. read() copies the p_filesz bytes of a note into `to`; false: unreadable. 0:
 * no hash. Pure but for read(). */
uint64_t dso_table_print(const Elf64_Phdr *headers, unsigned n,
                         bool (*read)(const Elf64_Phdr *note, void *to, const void *arg),
                         const void *arg);

/* Finds what was loaded and unloaded since the last call. The result changes when something was
 * unloaded. Any thread. Waits for the lock of the loader's list, which others hold for some 100 us.
 * Below 1 us when nothing changed; allocates nothing. */
uint32_t dso_table_look(void);

/* A number for the object that is at the address, as of the last look. Any thread; free until
 * something was unloaded. */
uint32_t dso_table_at(uint64_t address);
#define DSO_FIRST 0u /* the first object there; none was unloaded */
/* the object there is unloaded, or another thread looks now: ask dso_table_look_at() */
#define DSO_GAP UINT32_MAX

/* Looks as dso_table_look(), then answers as dso_table_at(); DSO_GAP means that there is no code.
 * DSO_GAP also in a signal handler that interrupted a look. Any thread. */
uint32_t dso_table_look_at(uint64_t address);

/* The object for an address and the number that dso_table_at() gave. NULL: unknown. Any thread. */
const struct elf_object *dso_table_find(uint64_t address, uint32_t number);

/* The object's index, below DSO_MOST. */
unsigned dso_table_index(const struct elf_object *object);
