/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the seeds of a fuzz target, and what a few random changes make of them, so that `make
 * test` runs what fuzzing found. */
#ifndef TESTS_SUPPORT_CORPUS_H
#define TESTS_SUPPORT_CORPUS_H

#include <stddef.h>
#include <stdint.h>

/* Gives target() each file of the folder, at most 4096 bytes of it, and `changes` variants of each.
 * Returns the number of files. From the repository's root. */
unsigned corpus_replay(const char *folder, int (*target)(const uint8_t *, size_t),
                       unsigned changes);

#endif
