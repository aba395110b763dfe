/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns for names. Pure. Unlike fnmatch(), no allocation, no locale, and `text` needs no
 * NUL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* True when the whole text matches: * any bytes, ? one byte, [a-z] and [!a-z] a byte in or outside
 * a set, \ takes the next byte literally. A [ without its ] is literal. */
bool glob_match(const char *pattern, const char *text, size_t len);
