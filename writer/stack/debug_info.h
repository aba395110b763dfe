/* SPDX-License-Identifier: Apache-2.0 */
/* Tells whether DWARF readers would find source lines for a file: in itself, or in a file of debug
 * information (/usr/lib/debug/.build-id, .gnu_debuglink). Reads only section names. cprof
 * thread. */
#pragma once

#include <elf.h>
#include <stdbool.h>

/* fd: the ELF file, of io_open(), with its head and all section headers. path: of the file. */
bool debug_info_has_lines(int fd, const Elf64_Ehdr *head, const Elf64_Shdr *sections,
                          const char *path);
