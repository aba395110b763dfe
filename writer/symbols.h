/* SPDX-License-Identifier: Apache-2.0 */
/* Names for return addresses of this process: the function from the ELF symbols of the file that is mapped there, demangled. Files are
 * read, not mapped, and no lock of the loader is held meanwhile. cprof thread. */
#ifndef WRITER_SYMBOLS_H
#define WRITER_SYMBOLS_H

#include <stdint.h>

#include "writer/buf.h"

/* Appends "function (library.so)", "library.so+0x1f2e" where the file names no function there, nothing where no file is mapped. The first
 * address in a file reads its symbols (some 10 ms for a large one); each later one a few microseconds. */
void symbols_name(uint64_t pc, struct buf *b);

/* A demangled C++ name without what it returns, its parameters and its template arguments, at most `size` bytes: those of torch are
 * hundreds of bytes long. The bytes used. Pure. */
size_t symbols_shorten(const char *name, size_t len, char *out, size_t size);

#endif
