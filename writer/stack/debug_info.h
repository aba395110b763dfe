/* SPDX-License-Identifier: Apache-2.0 */
/* Whether somebody who reads DWARF would find source lines for a file: in itself, or in a file of
 * debug information where distributions put it (/usr/lib/debug/.build-id, .gnu_debuglink). Nothing
 * of it is read but names of sections. cprof thread. */
#ifndef WRITER_STACK_DEBUG_INFO_H
#define WRITER_STACK_DEBUG_INFO_H

#include <elf.h>
#include <stdbool.h>

/* fd: the ELF file, of io_open(); its head and all its section headers; path: where it is. */
bool debug_info_has_lines(int fd, const Elf64_Ehdr *head, const Elf64_Shdr *sections,
                          const char *path);

#endif
