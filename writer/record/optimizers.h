/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of optimizers that have stepped in this process, for the trace and the exit line. */
#pragma once

#include <stddef.h>

#include "writer/base/base.h"

/* Appends `"optimizers": {"SGD": 18}, ` to b if any optimizer has stepped. cprof thread. */
void optimizers_account(struct buf *b);

/* Writes the exit line's text about optimizers, terminated, or "". The exiting thread. */
void optimizers_exit(char *out, size_t size);
