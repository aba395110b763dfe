/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of modules by number, so that a record carries 8 bytes (EXTRA_MODULE) instead of
 * `ResNet.layer1.0.conv1`; and which module a forward operator ran in, for the backward node that
 * it made. Bounded memory, no lock: application threads add, every thread reads. */
#ifndef WRITER_RECORD_MODULES_H
#define WRITER_RECORD_MODULES_H

#include <stdbool.h>
#include <stdint.h>

/* Most bytes of a path; a longer one is cut. */
#define MODULE_PATH 2048u

/* The number of a path, the same for the same text as long as the process lives; 0: there is no
 * room for another (count it as LOSS_MODULE). text need not be terminated. Any thread. */
uint32_t modules_id(const char *text, uint32_t len);

/* The path with this number, not terminated, valid for ever, and its bytes in *len; NULL: there is
 * none. Any thread. */
const char *modules_path(uint64_t id, uint32_t *len);

/* An operator with this autograd sequence number (>= 0) ran in the module on this thread (torch's
 * number of it): of several with one number the last one counts, as for the arrow (flows.h). Any
 * thread. */
void modules_link(uint64_t torch_thread, int64_t sequence, uint32_t id);

/* The module of the forward operator that made a backward node; 0: not known, or too long ago. Any
 * thread. */
uint32_t modules_linked(uint64_t forward_thread, int64_t sequence);

#endif
