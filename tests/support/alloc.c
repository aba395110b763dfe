/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces malloc and mmap of the test program by versions that count and fail. Any thread. */
#define _GNU_SOURCE
#include "tests/support/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/sanitizer.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOREIGN_ALLOCATOR 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOREIGN_ALLOCATOR 1
#endif

static __thread uint64_t calls, bytes;
static _Atomic size_t fail_from;

uint64_t alloc_count(void)
{
    return calls;
}

uint64_t alloc_bytes(void)
{
    return bytes;
}

void alloc_fail_from(size_t size)
{
    atomic_store(&fail_from, size);
}

#ifdef FOREIGN_ALLOCATOR
bool alloc_is_ours = false;
#else
bool alloc_is_ours = true;

__attribute__((constructor)) static void look_for_valgrind(void)
{
    alloc_is_ours = !under_valgrind();
}

#define VISIBLE __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool fails(size_t size)
{
    calls++;
    bytes += size;
    size_t from = atomic_load_explicit(&fail_from, memory_order_relaxed);
    if (from == 0 || size < from)
        return false;
    errno = ENOMEM;
    return true;
}

VISIBLE void *malloc(size_t size)
{
    return fails(size) ? NULL : __libc_malloc(size);
}

VISIBLE void *calloc(size_t n, size_t size)
{
    return fails(n * size) ? NULL : __libc_calloc(n, size);
}

VISIBLE void *realloc(void *old, size_t size)
{
    return fails(size) ? NULL : __libc_realloc(old, size);
}

VISIBLE void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    if ((flags & MAP_ANONYMOUS) && fails(size))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
}
#endif
