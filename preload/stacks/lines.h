/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of native frames, from a program that reads debug information: eu-addr2line
 * (elfutils) or addr2line (binutils). It runs apart (spawn.h), niced and with a limit of memory,
 * because a library that does the same would bring libz and liblzma of its own into the host, map
 * files whose change is a SIGBUS, and take gigabytes for a debug build of torch. Asked are only
 * files that have lines (writer/stack/debug_info.h), each address once, many at a time. */
#ifndef PRELOAD_STACKS_LINES_H
#define PRELOAD_STACKS_LINES_H

#include <stdbool.h>
#include <stdint.h>

/* Looks for the program. Once, at wake-up, on the waking thread. */
void lines_start(void);

/* See struct stacks_resolver (writer/stack/stack_json.h). cprof thread. */
void lines_want(uint32_t frame, uint64_t pc, uint32_t object);
void lines_ask(bool stopping);
uint32_t lines_answer(const char **file, uint32_t *len, int32_t *line);

/* Reads one line of an answer: FILE:LINE, with `column` FILE:LINE:COLUMN; what may stand behind is
 * left out. The length of the file's name, 0: it is not known. text[len] need not be there.
 * Pure. */
uint32_t lines_parse(const char *text, uint32_t len, bool column, int32_t *line);

#endif
