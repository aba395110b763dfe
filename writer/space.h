/* SPDX-License-Identifier: Apache-2.0 */
/* Rings in a limited address space: what they map the program cannot. Any application thread; no lock, no allocation. */
#ifndef WRITER_SPACE_H
#define WRITER_SPACE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the address space is limited: then each ring is to ask for its room. */
bool space_limited(void);

/* Room for a ring of *ring bytes, a power of two, and for `besides` bytes that come with it. *ring is made smaller, so that there is something
 * for threads to come, and all together take at most an eighth of what was left when the first one asked. false: nothing is left of that. */
bool space_take(uint64_t *ring, uint64_t besides);

/* They could not be mapped after all. */
void space_give_back(uint64_t bytes);

#endif
