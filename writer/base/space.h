/* SPDX-License-Identifier: Apache-2.0 */
/* Room for rings of records and timelines in a limited address space, where mapped bytes are
 * missing to the program. Any thread; no lock, no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* True when the address space is limited: each ring must ask for its room then. */
bool space_limited(void);

/* Reserves *ring bytes for a ring and `besides` bytes that it needs. Halves *ring to leave room for
 * later threads. All rings together get an eighth of what was left at the first call. False:
 * nothing is left (logged once). */
bool space_take(uint64_t *ring, uint64_t besides);

/* Gives back bytes that could not be mapped, or were unmapped. */
void space_give_back(uint64_t bytes);
