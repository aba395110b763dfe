/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the layout before Python stacks are recorded. In the interpreter's main thread, with the
 * GIL, one stack that is read by layout is compared with what CPython's functions return. If they
 * differ, Python stacks stay off, with one line. They also stay off for unknown versions, builds
 * without GIL, debug builds and subinterpreters. */
#pragma once

#include <stdbool.h>

/* Schedules the comparison in the main thread. Does nothing without Python. Call once, at
 * wake-up. */
void pycheck_start(void);

/* A stack was taken while Python frames are not read. Any thread. */
void pycheck_missed(void);

/* Warns once when many stacks were taken before the comparison ran. cprof thread; as poll in struct
 * part. */
int pycheck_poll(bool stopping);
