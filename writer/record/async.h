/* SPDX-License-Identifier: Apache-2.0 */
/* The cprof thread's view of ranges from async_open() (writer.h), to show those that are open. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/open_copy.h"

/* How many places of the table have been in use so far. cprof thread. */
uint32_t async_places(void);

/* Copies the range at place `at`, with REC_CROSSES in its flags; *tid: the thread where it began.
 * False: no range is open there, or it changed meanwhile. cprof thread. */
bool async_copy_take(uint32_t at, struct open_copy *copy, uint32_t *tid);
