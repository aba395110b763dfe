/* SPDX-License-Identifier: Apache-2.0 */
/* The unit binary's own malloc and anonymous mmap: they count each thread's requests and fail on
 * demand. Sanitizers and valgrind bring allocators of their own; then alloc_is_ours is false. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: the functions below count nothing and have no effect. */
extern bool alloc_is_ours;

/* Calls of malloc, calloc, realloc and mmap that this thread has made. */
uint64_t alloc_count(void);

/* Bytes that this thread requested by these calls, also in failed calls. */
uint64_t alloc_bytes(void);

/* From now on requests for `size` bytes or more fail, on every thread; 0: none fails. */
void alloc_fail_from(size_t size);
