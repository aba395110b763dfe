/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks another CUPTI client in this process by the calls that it makes. */
#pragma once

#include <stdbool.h>

#include "cupti/gpu_trace.h"

/* Notes a call; parameters as gpu_other_client(). Any thread; never waits for CUPTI. */
void other_client_note(enum gpu_other what, int kind);

/* True when the client has no kind on and has flushed, or made no call for three seconds.
 * *subscribed: the client is subscribed. Any thread. */
bool other_client_is_idle(bool *subscribed);
