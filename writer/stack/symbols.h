/* SPDX-License-Identifier: Apache-2.0 */
/* Names of return addresses in this process: the function, demangled, from the ELF symbols of the
 * file that is or was mapped there (dso_table.h). Files are read, not mapped, without a lock of the
 * loader. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/base/base.h"

/* The place of an address in a file. */
struct symbol_place {
    const char *path; /* never freed */
    uint64_t at;      /* address of the call in the file */
    unsigned file;    /* index of the file, below DSO_MOST */
    /* the file is the one that was mapped, and it or a debug file has source lines */
    bool has_lines;
};

/* The place of the call that returns to pc. number: of dso_table_at(). False: no known file. */
bool symbols_place(uint64_t pc, uint32_t number, struct symbol_place *out);

/* Appends "function (library.so)". Appends "library.so+0x1f2e" where the file names no function or
 * is not the one that was mapped; nothing without a known file. The first address of a file reads
 * its symbols (about 10 ms for a large one), a later one takes a few microseconds. */
void symbols_name(uint64_t pc, uint32_t number, struct buf *b);

/* Shortens a demangled C++ name to `size` bytes: drops return type, parameters and template
 * arguments, which are hundreds of bytes in torch. Returns the length. Pure. */
size_t symbols_shorten(const char *name, size_t len, char *out, size_t size);
