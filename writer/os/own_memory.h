/* SPDX-License-Identifier: Apache-2.0 */
/* Reads this process's memory through the kernel, where an address may be wrong or its object be
 * freed at any moment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Copies n bytes. False and errno (EFAULT: there is no memory) if not all of them can be read. Any
 * thread. */
static inline bool own_memory_copy(const void *from, void *to, size_t n)
{
    struct iovec here = {to, n}, there = {(void *)(uintptr_t)from, n};
    return syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) == (long)n;
}
