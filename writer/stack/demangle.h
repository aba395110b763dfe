/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names as people write them, by libsupc++'s demangler, linked statically and hidden. cprof
 * thread; of names that are not mangled, such as those of CUDA's calls, any thread. */
#ifndef WRITER_STACK_DEMANGLE_H
#define WRITER_STACK_DEMANGLE_H

#include <stddef.h>

#define DEMANGLED_MOST 65535u /* bytes; what is longer is cut */

/* The text of a name of *len bytes, valid until the next call, and its length; the name itself
 * where it is not mangled or cannot be read. Allocates nothing; a hostile name takes 400 KB of
 * stack. */
const char *demangle(const char *name, size_t *len);

#endif
