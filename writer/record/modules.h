/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers module paths, so that a record carries 8 bytes (EXTRA_MODULE) instead of
 * `ResNet.layer1.0.conv1`. Also remembers in which module a forward operator ran, for the backward
 * node that it made. Bounded memory, no lock: application threads add, any thread reads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Most bytes of a path; a longer path is cut. */
#define MODULE_PATH 2048u

/* Returns the number of a path, the same for the same text in this process. 0: no room (count
 * LOSS_MODULE). text need not be terminated. Any thread. */
uint32_t modules_id(const char *text, uint32_t len);

/* Returns the path with this number, not terminated, and its bytes in *len. Static. NULL: no such
 * path. Any thread. */
const char *modules_path(uint64_t id, uint32_t *len);

/* Notes that an operator with this autograd sequence number (>= 0) ran in the module. torch_thread:
 * torch's number of the thread. Of several operators with one number, the last counts, as for the
 * arrow (flows.h). Any thread. */
void modules_link(uint64_t torch_thread, int64_t sequence, uint32_t id);

/* Returns the module of the forward operator that made a backward node; 0: unknown, or overwritten
 * by newer operators. Any thread. */
uint32_t modules_linked(uint64_t forward_thread, int64_t sequence);
