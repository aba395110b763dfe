/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of records and of timelines in a limited address space: what they map the program cannot.
 * Any thread; no lock, no allocation. */
#ifndef WRITER_BASE_SPACE_H
#define WRITER_BASE_SPACE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the address space is limited: then each ring is to ask for its room. */
bool space_limited(void);

/* Room for a ring of *ring bytes and for `besides` bytes that come with it. *ring is halved until
 * something is left for later threads. All together take at most an eighth of what was left when
 * the first one asked. false: nothing is left of that (one line, once). */
bool space_take(uint64_t *ring, uint64_t besides);

/* They could not be mapped after all, or are unmapped. */
void space_give_back(uint64_t bytes);

#endif
