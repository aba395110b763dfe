/* SPDX-License-Identifier: Apache-2.0 */
/* Marks functions that run in a process made by clone() with shared memory
 * (preload/delivery/spawn.c). They must not write thread-local storage. ASan and TSan keep their
 * state there, so these functions are exempt. */
#pragma once

#if defined(__has_attribute)
#if __has_attribute(no_sanitize)
#define APART __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
#endif
#endif
#ifndef APART
#define APART __attribute__((noinline))
#endif
