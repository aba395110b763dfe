/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns on names. Pure; unlike fnmatch() it allocates nothing, knows no locale, and takes
 * names that are not terminated. */
#ifndef PRELOAD_CORE_GLOB_H
#define PRELOAD_CORE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* True when the whole text matches: * any bytes, ? one byte, [a-z] and [!a-z] one of a set, \ takes
 * the next byte as it is. A [ without its ] stands for itself. */
bool glob_match(const char *pattern, const char *text, size_t len);

#endif
