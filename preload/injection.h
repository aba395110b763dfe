/* SPDX-License-Identifier: Apache-2.0 */
/* Warns when another tool owns the injection variable of NVTX or ITT. */
#pragma once

#include "preload/settings/settings.h"

/* Warns, in one line for NVTX and one for ITT, that its ranges go to another tool: the user or a
 * tool around the program has set its variable. An application thread, while cprof wakes up. */
void injection_say_taken(const struct config *config);
