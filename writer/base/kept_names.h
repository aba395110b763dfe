/* SPDX-License-Identifier: Apache-2.0 */
/* Texts kept once each, never freed: names of calls and ranges whose kernels may still come. cprof
 * thread. */
#pragma once

#include <stdint.h>

/* The kept copy of a text, not terminated. NULL, counted: no memory, more than a million texts, or
 * 64 MB of them. */
const char *names_keep(const char *text, uint32_t len);

/* Texts without room, since the last call. */
uint64_t names_refused(void);
