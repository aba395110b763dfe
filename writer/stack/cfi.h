/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses of a thread that waits in a system call, from its program counter and stack
 * pointer: all that the kernel tells of its registers. Unwinds by the call frame information of the
 * loaded objects (.eh_frame), as far as that needs no register of which nothing is known. The
 * kernel copies what it reads, so wrong addresses are safe. No lock, no file. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Writes at most `most` addresses, beginning with pc, and returns their number. *whole: the last
 * one is the outermost. */
unsigned cfi_unwind(uint64_t pc, uint64_t sp, uint64_t *out, unsigned most, bool *whole);
