/* SPDX-License-Identifier: Apache-2.0 */
/* Demangles C++ names by libsupc++, linked statically and hidden. cprof thread; for names that are
 * not mangled, such as CUDA's calls, any thread. */
#pragma once

#include <stddef.h>

#define DEMANGLED_MOST 65535u /* bytes; longer text is cut */

/* The demangled text of a name of *len bytes, valid until the next call; *len becomes its length.
 * Returns the name itself if it is not mangled or invalid. Allocates nothing; a hostile name takes
 * 400 KB of stack. */
const char *demangle(const char *name, size_t *len);
