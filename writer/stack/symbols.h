/* SPDX-License-Identifier: Apache-2.0 */
/* Names for return addresses of this process: the function from the ELF symbols of the file that is
 * mapped there, or was (dso_table.h), demangled. Files are read, not mapped, and no lock of the
 * loader is held meanwhile. cprof thread. */
#ifndef WRITER_STACK_SYMBOLS_H
#define WRITER_STACK_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

/* Where an address lies in a file. */
struct symbol_place {
    const char *path; /* of the file, good for the life of the process */
    uint64_t at;      /* of the call, as the file counts */
    unsigned file;    /* its number, below DSO_MOST */
    /* the file, or one beside it, tells source lines, and is the one that was mapped */
    bool has_lines;
};

/* Where the call that returns to pc lies; number: what dso_table_at() gave for it. false: no file
 * is known there. */
bool symbols_place(uint64_t pc, uint32_t number, struct symbol_place *out);

/* Appends "function (library.so)", "library.so+0x1f2e" where the file names no function there or is
 * not the one that was mapped, nothing where no file is known. The first address in a file reads
 * its symbols (some 10 ms for a large one); each later one a few microseconds. */
void symbols_name(uint64_t pc, uint32_t number, struct buf *b);

/* A demangled C++ name without what it returns, its parameters and its template arguments, at most
 * `size` bytes: those of torch are hundreds of bytes long. The bytes used. Pure. */
size_t symbols_shorten(const char *name, size_t len, char *out, size_t size);

#endif
