/* SPDX-License-Identifier: Apache-2.0 */
/* The unit binary's own malloc and mmap of anonymous memory: counts what each thread asks for and
 * fails on demand. With a sanitizer, or valgrind, that brings its own allocator there is nothing to
 * count, and alloc_is_ours is false. */
#ifndef TESTS_SUPPORT_ALLOC_H
#define TESTS_SUPPORT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: the functions below see and do nothing. */
extern bool alloc_is_ours;

/* Calls of malloc, calloc, realloc and mmap that this thread has made. */
uint64_t alloc_count(void);

/* Bytes that this thread has asked for by them, whether given or not. */
uint64_t alloc_bytes(void);

/* From now on requests for `size` bytes or more fail, on every thread; 0: none fails. */
void alloc_fail_from(size_t size);

#endif
