/* SPDX-License-Identifier: Apache-2.0 */
/* The doors of NVTX and ITT, when they belong to somebody else. */
#ifndef PRELOAD_INJECTION_H
#define PRELOAD_INJECTION_H

#include "preload/settings/settings.h"

/* Says in one line for each of NVTX and ITT that its ranges go to another tool, where the user (or
 * a tool around) has set its variable. An application thread, while cprof wakes up. */
void injection_say_taken(const struct config *config);

#endif
