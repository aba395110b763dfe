/* SPDX-License-Identifier: Apache-2.0 */
/* Marks functions that run in a process made by clone() that shares our memory
 * (preload/delivery/spawn.c). They write no thread-local storage. ASan and TSan keep their state
 * there, so they leave these alone. */
#ifndef WRITER_OS_APART_H
#define WRITER_OS_APART_H

#if defined(__has_attribute)
#if __has_attribute(no_sanitize)
#define APART __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
#endif
#endif
#ifndef APART
#define APART __attribute__((noinline))
#endif

#endif
