/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges opened by async_open() (writer.h), as the cprof thread sees them: to show those that
 * are open. */
#ifndef WRITER_RECORD_ASYNC_H
#define WRITER_RECORD_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/open_copy.h"

/* Places that have been in use so far. cprof thread. */
uint32_t async_places(void);

/* Copies the range at place `at`; its flags say that it crosses. *tid: the thread on which it
 * began. False when none is open there, or when it changed meanwhile. cprof thread. */
bool async_copy_take(uint32_t at, struct open_copy *copy, uint32_t *tid);

#endif
