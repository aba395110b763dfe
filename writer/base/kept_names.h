/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are kept once each and for ever: names of calls and of ranges whose kernels are still
 * to come. cprof thread. */
#ifndef WRITER_BASE_KEPT_NAMES_H
#define WRITER_BASE_KEPT_NAMES_H

#include <stdint.h>

/* The kept copy of a text, not terminated; NULL: no memory, or more than a million different ones
 * or 64 MB of them (counted). */
const char *names_keep(const char *text, uint32_t len);

/* Texts for which there was no room, since last asked. */
uint64_t names_refused(void);

#endif
