/* SPDX-License-Identifier: Apache-2.0 */
/* A system call that headers before Linux 5.9 and glibc 2.34 lack; its number is the same on all
 * processors. */
#pragma once

#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
