/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the seeds of a fuzz target, also with random changes, so that `make test` runs what
 * fuzzing found. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Calls target() with the first 4096 bytes of each file in the folder and with `changes` variants
 * of each. Returns the number of files. The current folder must be the repository's root. */
unsigned corpus_replay(const char *folder, int (*target)(const uint8_t *, size_t),
                       unsigned changes);
