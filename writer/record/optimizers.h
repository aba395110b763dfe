/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of the optimizers that have stepped in this process, as the trace and the exit line
 * name them. */
#ifndef WRITER_RECORD_OPTIMIZERS_H
#define WRITER_RECORD_OPTIMIZERS_H

#include <stddef.h>

#include "writer/base/base.h"

/* Adds `"optimizers": {"SGD": 18}, ` if any has stepped. cprof thread. */
void optimizers_account(struct buf *b);

/* What the exit line says of them, terminated; empty where it says nothing. The exiting thread. */
void optimizers_exit(char *out, size_t size);

#endif
