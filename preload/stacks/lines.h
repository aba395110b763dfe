/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of native frames, from eu-addr2line (elfutils) or addr2line (binutils). The program
 * runs as a child (spawn.h), niced and with limited memory. A library in the host would load its
 * own libz and liblzma, map files that may change (SIGBUS), and take gigabytes for a debug build of
 * torch. It is asked only about files that have lines (writer/stack/debug_info.h), for each address
 * once, in batches. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Finds the program. Call once, at wake-up, in the waking thread. */
void lines_start(void);

/* See struct stacks_resolver (writer/stack/stack_json.h). cprof thread. */
void lines_want(uint32_t frame, uint64_t pc, uint32_t object);
void lines_ask(bool stopping);
uint32_t lines_answer(const char **file, uint32_t *len, int32_t *line);

/* Parses a line of an answer: FILE:LINE, with `column` FILE:LINE:COLUMN, maybe with more behind.
 * Returns the length of the file name; 0: unknown. Does not read text[len]. Pure. */
uint32_t lines_parse(const char *text, uint32_t len, bool column, int32_t *line);
